// Unfinished jobs that this browser requested. After a reload, or when their link is opened again,
// the page reattaches to them instead of starting a second one.
import { browserTabId } from "../shell/ids.mjs";

/**
 * @typedef {object} Pressed
 * @property {string} press random id of the job
 * @property {string} key stage or tab that shows it
 * @property {string} link address that requests the same
 * @property {string} run id of its run on the server, or its own; empty until the server answered
 * @property {number} number number that the page gave it, for a comparison
 * @property {string} page id of the browser tab that requested it
 * @property {number} until expiry, in milliseconds since the epoch
 */

const PENDING_KEY = "dp-going";
const ENDED_KEY = "dp-ended";
// The server stops an idle job much earlier.
const PENDING_TTL_MS = 600_000;

// The browser may block storage, and stored data may come from another program: check everything.
function readPending() {
  try {
    const kept = JSON.parse(localStorage.getItem(PENDING_KEY) ?? "[]");
    const fresh = (/** @type {any} */ p) => typeof p?.press === "string" && p.until > Date.now();
    return Array.isArray(kept) ? kept.filter(fresh) : [];
  } catch {
    return [];
  }
}

/**
 * Store the unfinished jobs.
 * @param {Pressed[]} list
 */
function writePending(list) {
  try {
    localStorage.setItem(PENDING_KEY, JSON.stringify(list));
  } catch {
    // Without storage a reload starts from nothing.
  }
}

/**
 * Store a request for ten minutes.
 * @param {string} press
 * @param {string} key
 * @param {string} link
 * @param {number} number
 */
export function savePending(press, key, link, number) {
  writePending([
    ...readPending().filter((p) => p.press !== press),
    { press, key, link, number, run: "", page: browserTabId(), until: Date.now() + PENDING_TTL_MS },
  ]);
}

/**
 * Set the server's run id of a stored request.
 * @param {string} press
 * @param {string} run
 */
export function setRunId(press, run) {
  writePending(readPending().map((p) => (p.press === press ? { ...p, run } : p)));
}

/**
 * Delete a stored request.
 * @param {string} press
 */
export function deletePending(press) {
  writePending(readPending().filter((p) => p.press !== press));
}

/**
 * Return the latest unfinished job that this browser tab requested for a stage or a tab.
 * @param {string} key
 * @returns {Pressed | undefined}
 */
export const findPendingAt = (key) =>
  readPending().findLast((p) => p.key === key && p.page === browserTabId());

/**
 * Return the latest unfinished job that a link requests.
 * @param {string} link
 * @returns {Pressed | undefined}
 */
export const findPendingByLink = (link) =>
  link ? readPending().findLast((p) => p.link === link) : undefined;

// Stage key -> the run that this tab showed last. The server stores runs across its restarts.
function readEnded() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(ENDED_KEY) ?? "{}");
    return kept && typeof kept === "object" ? kept : {};
  } catch {
    return {};
  }
}

/**
 * Return the id of the ended run that a stage showed last.
 * @param {string} key
 * @returns {string} empty for none
 */
export const endedRunAt = (key) => String(readEnded()[key] ?? "");

/**
 * Store the ended run that a stage shows, to show it again after a reload.
 * @param {string} key
 * @param {string} run empty to show nothing
 */
export function saveEndedRun(key, run) {
  if (endedRunAt(key) === run) return;
  try {
    sessionStorage.setItem(ENDED_KEY, JSON.stringify({ ...readEnded(), [key]: run }));
  } catch {
    // Without storage a reload starts from nothing.
  }
}
