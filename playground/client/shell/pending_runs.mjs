// Unfinished runs that this browser requested. After a reload, or when their link is opened again,
// the page reattaches to them instead of starting a second run.

/**
 * @typedef {object} Pressed
 * @property {string} press random id of the request
 * @property {string} key stage that shows the run
 * @property {string} link address that requests the same run
 * @property {string} run id of the run on the server, empty until it is known
 * @property {number} number number that the page gave it, for a comparison
 * @property {string} page id of the browser tab that requested it
 * @property {number} until expiry, in milliseconds since the epoch
 */

const PENDING_KEY = "dp-going";
const TAB_KEY = "dp-page";
const ENDED_KEY = "dp-ended";
// The server stops an idle run much earlier.
const PENDING_TTL_MS = 600_000;

/** Return a random id of 128 bits, as hexadecimal digits. */
export const randomId = () =>
  [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");

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
 * Store the unfinished runs.
 * @param {Pressed[]} list
 */
function writePending(list) {
  try {
    localStorage.setItem(PENDING_KEY, JSON.stringify(list));
  } catch {
    // Without storage a reload starts from nothing.
  }
}

/** Return the id of this browser tab, stable across reloads; empty if storage is blocked. */
export function browserTabId() {
  try {
    const known = sessionStorage.getItem(TAB_KEY) ?? randomId();
    sessionStorage.setItem(TAB_KEY, known);
    return known;
  } catch {
    return "";
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
 * Return the latest unfinished run that this tab requested for a stage.
 * @param {string} key
 * @returns {Pressed | undefined}
 */
export const findPendingAt = (key) =>
  readPending().findLast((p) => p.key === key && p.page === browserTabId());

/**
 * Return the latest unfinished run that a link requests.
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
