// Recorded runs and examples, fetched when a tab wants one, and how a run of the gallery is shown.
import { isNothing } from "../../visualizers/shared/record.mjs";
import { tr } from "../../visualizers/shared/tr.mjs";
import { store } from "./runs.mjs";
import { declared } from "./spec.mjs";

let place = "";

export function recordedFrom(url) {
  place = url;
}

// The request is the one that the page's head may have made already.
export async function fetchRecorded(name) {
  const answer = await fetch(`${place}/${name}.json`);
  if (!answer.ok) throw new Error(tr("The recorded run could not be fetched."));
  const found = await answer.json();
  // The declaration says it in the reader's language.
  const { title, shows } = declared().gallery?.find((one) => one.name === name) ?? {};
  return title ? { ...found, title, shows } : found;
}

// By stage: how many recorded runs were asked for; the last one is shown.
const asked = new Map();

/**
 * Show a run of the gallery at a step worth seeing, or at another one; what was begun meanwhile stays.
 * @param {string} key of the stage
 * @param {string} name of the recorded run
 * @param {number | null} [step] from 1
 */
export async function showRecorded(key, name, step = null) {
  const before = store.runId(key);
  const { error: known } = store.shown(key) ?? {};
  const number = (asked.get(key) ?? 0) + 1;
  asked.set(key, number);
  const { trace, shown, form, shows, look_at } = await fetchRecorded(name);
  const now = store.shown(key);
  const moved = store.runId(key) !== before && !now?.entry && !isNothing(now);
  if (moved || asked.get(key) !== number) return null;
  const { error } = now ?? {};
  const run = store.showTrace(key, { trace, shown }, "recorded");
  // What was refused while this was fetched is still to be read.
  Object.assign(run, { form, shows, entry: name, error: error === known ? "" : error });
  store.select(run, (step ?? look_at) - 1);
  return run;
}
