// A run with all its pictures as one HTML file that needs no server. The page is the one that Python
// makes of a trace; a trace may be larger than what the server takes, so it is put in here.
import { trace } from "../../visualizers/shared/record.mjs";
import { spoken, tr } from "../../visualizers/shared/tr.mjs";

const NOT_SAVED = ["since", "family", "export", "what_if", "why"];
const HOLE = "<!--run-->";

// Inside a script element nothing may look like its end.
const json = (value) => JSON.stringify(value).replaceAll("<", "\\u003c");

async function skeletonFor(visuals) {
  const asked = `./page.html?pictures=${visuals}&lang=${spoken()}`;
  const answer = await fetch(new URL(asked, import.meta.url));
  if (!answer.ok) throw new Error(tr("The page could not be fetched."));
  const text = await answer.text();
  const at = text.lastIndexOf(HOLE);
  return [text.slice(0, at), text.slice(at + HOLE.length)];
}

/** @param {Run} run */
export async function savedPage(run, visuals) {
  const kept = visuals.filter((name) => !NOT_SAVED.includes(name));
  const [before, after] = await skeletonFor(kept);
  const recorded = { trace: trace(run), shown: run.shown };
  const dark = document.querySelector(".dark") !== null;
  const { shows, changed, selected } = run;
  return (
    before + json({ recorded, visuals: kept, dark, about: { shows, changed, selected } }) + after
  );
}
