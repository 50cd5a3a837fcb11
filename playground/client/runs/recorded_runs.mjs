// Recorded runs: fetches them by name and shows them in a stage.

import { isRefusedRun } from "../../../visualizers/shared/record.mjs";
import { readMessage } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { store } from "../shell/page_state.mjs";
import { getDeclaration, getStrategy } from "../shell/spec.mjs";

/**
 * A recorded run as the declaration names it, in the reader's language.
 * @typedef {object} GalleryEntry
 * @property {string} name
 * @property {string} strategy
 * @property {string} title of its example
 * @property {string | null} model title of a conversation's model
 * @property {string} shows what to look at
 */

let recordedAddress = "";

/**
 * Set the address of the folder with the recorded runs.
 * @param {string} url
 */
export function setRecordedAddress(url) {
  recordedAddress = url;
}

/**
 * Fetch a recorded run.
 * @param {string} name
 * @returns {Promise<any>}
 */
export async function fetchRecorded(name) {
  // The page's head may have preloaded this address, so it must stay exactly the same.
  const answer = await fetch(`${recordedAddress}/${name}.json`);
  if (!answer.ok) throw new Error(tr("The recorded run could not be fetched."));
  const found = await readMessage(answer);
  // Take title and sentence from the declaration: it is in the reader's language, the file is not.
  /** @type {GalleryEntry[]} */
  const gallery = getDeclaration().gallery ?? [];
  const entry = gallery.find((one) => one.name === name);
  return entry ? { ...found, title: entryTitle(entry), shows: entry.shows } : found;
}

/**
 * Return the name of the strategy's recorded run that the page's address names, if it names one.
 * @param {string} strategy
 */
export function recordingInAddress(strategy) {
  const asked = new URLSearchParams(location.search).get("trace");
  /** @type {GalleryEntry[]} */
  const gallery = getDeclaration().gallery ?? [];
  return gallery.find((one) => one.name === asked && one.strategy === strategy)?.name;
}

/** @param {GalleryEntry} entry */
function entryTitle({ strategy, title, model }) {
  const full = `${getStrategy(strategy).title}: ${title}`;
  return model ? `${full} (${model})` : full;
}

// Number of the latest request of each stage; only its answer is shown.
/** @type {Map<string, number>} */
const requestNumbers = new Map();

/**
 * Show a recorded run at its highlighted step or at a given one. Returns null, and shows nothing,
 * if the stage got another run meanwhile.
 * @param {string} key of the stage
 * @param {string} name of the recorded run
 * @param {number | null} [step] from 1
 */
export async function showRecorded(key, name, step = null) {
  const before = store.runId(key);
  const { error: known } = store.shown(key) ?? {};
  const number = (requestNumbers.get(key) ?? 0) + 1;
  requestNumbers.set(key, number);
  const { trace, shown, form, shows, look_at, dial_maps } = await fetchRecorded(name);
  const now = store.shown(key);
  const moved = store.runId(key) !== before && !now?.entry && !isRefusedRun(now);
  if (moved || requestNumbers.get(key) !== number) return null;
  const { error } = now ?? {};
  const run = store.showTrace(key, { trace, shown }, "recorded");
  // Keep an error that appeared while the recording was fetched.
  const kept = error === known ? "" : error;
  Object.assign(run, { form, shows, look_at, entry: name, dial_maps, error: kept });
  store.select(run, (step ?? look_at) - 1);
  return run;
}
