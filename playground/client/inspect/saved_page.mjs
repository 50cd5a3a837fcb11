// Saves a run with its views as one HTML file that needs no server. The server sends the empty
// page; the trace is inserted here, because it may be larger than the server accepts.

import { toTrace } from "../../../visualizers/shared/record.mjs";
import { collectTemplates } from "../../../visualizers/shared/server_text.mjs";
import { pageLanguage, tr } from "../../../visualizers/shared/tr.mjs";

const NOT_SAVED = ["since", "family", "export", "what_if", "why"];
const RUN_PLACEHOLDER = "<!--run-->";

/**
 * Escape <, so that no text of the run can close the script element.
 * @param {object} value
 */
const scriptJson = (value) => JSON.stringify(value).replaceAll("<", "\\u003c");

/** @param {string[]} visuals */
async function fetchPageParts(visuals) {
  const asked = `./page.html?pictures=${visuals}&lang=${pageLanguage()}`;
  const answer = await fetch(new URL(asked, import.meta.url));
  if (!answer.ok) throw new Error(tr("The page could not be fetched."));
  const text = await answer.text();
  const at = text.lastIndexOf(RUN_PLACEHOLDER);
  return [text.slice(0, at), text.slice(at + RUN_PLACEHOLDER.length)];
}

/**
 * Return the HTML of a page that shows one run.
 * @param {Run} run
 * @param {string[]} visuals
 */
export async function buildSavedPage(run, visuals) {
  const kept = visuals.filter(
    (name) => !NOT_SAVED.includes(name) && (name !== "dial_map" || run.maps),
  );
  const [before, after] = await fetchPageParts(kept);
  const record = { trace: toTrace(run), shown: run.shown };
  const recorded = { ...record, templates: collectTemplates(record) };
  const dark = document.querySelector(".dark") !== null;
  const { shows, changed, selected, maps, grid, grammar_texts } = run;
  const about = { shows, changed, selected, maps, grid, grammar_texts };
  return before + scriptJson({ recorded, visuals: kept, dark, about }) + after;
}
