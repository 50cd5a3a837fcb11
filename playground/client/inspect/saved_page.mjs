// Saves a run with its views as one HTML file that needs no server. The server sends the empty
// page; the trace is inserted here, because it may be larger than the server accepts.
import { trace } from "../../../visualizers/shared/record.mjs";
import { spoken, tr } from "../../../visualizers/shared/tr.mjs";

const NOT_SAVED = ["since", "family", "export", "what_if", "why"];
const HOLE = "<!--run-->";

// Escape <, so that no text of the run can close the script element.
const json = (value) => JSON.stringify(value).replaceAll("<", "\\u003c");

async function skeletonFor(visuals) {
  const asked = `./page.html?pictures=${visuals}&lang=${spoken()}`;
  const answer = await fetch(new URL(asked, import.meta.url));
  if (!answer.ok) throw new Error(tr("The page could not be fetched."));
  const text = await answer.text();
  const at = text.lastIndexOf(HOLE);
  return [text.slice(0, at), text.slice(at + HOLE.length)];
}

/**
 * Return the HTML of a page that shows one run.
 * @param {Run} run
 */
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
