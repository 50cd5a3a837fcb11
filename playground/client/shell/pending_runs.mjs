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

const KEY = "dp-going";
const PAGE = "dp-page";
const ENDED = "dp-ended";
// The server stops an idle run much earlier.
const OLD_MS = 600_000;

/** Return a random id of 128 bits, as hexadecimal digits. */
export const newName = () =>
  [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");

// The browser may block storage, and stored data may come from another program: check everything.
function all() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    const fresh = (p) => typeof p?.press === "string" && p.until > Date.now();
    return Array.isArray(kept) ? kept.filter(fresh) : [];
  } catch {
    return [];
  }
}

/**
 * Store the unfinished runs.
 * @param {Pressed[]} list
 */
function write(list) {
  try {
    localStorage.setItem(KEY, JSON.stringify(list));
  } catch {
    // Without storage a reload starts from nothing.
  }
}

/** Return the id of this browser tab, stable across reloads; empty if storage is blocked. */
export function pageName() {
  try {
    const known = sessionStorage.getItem(PAGE) ?? newName();
    sessionStorage.setItem(PAGE, known);
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
export function keepPress(press, key, link, number) {
  write([
    ...all().filter((p) => p.press !== press),
    { press, key, link, number, run: "", page: pageName(), until: Date.now() + OLD_MS },
  ]);
}

/**
 * Set the server's run id of a stored request.
 * @param {string} press
 * @param {string} run
 */
export function nameRun(press, run) {
  write(all().map((p) => (p.press === press ? { ...p, run } : p)));
}

/**
 * Delete a stored request.
 * @param {string} press
 */
export function forgetPress(press) {
  write(all().filter((p) => p.press !== press));
}

/**
 * Return the latest unfinished run that this tab requested for a stage.
 * @param {string} key
 * @returns {Pressed | undefined}
 */
export const pressOf = (key) => all().findLast((p) => p.key === key && p.page === pageName());

/**
 * Return the latest unfinished run that a link requests.
 * @param {string} link
 * @returns {Pressed | undefined}
 */
export const pressFor = (link) => (link ? all().findLast((p) => p.link === link) : undefined);

// Stage key -> the run that this tab showed last. The server stores runs across its restarts.
function ended() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(ENDED) ?? "{}");
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
export const endedAt = (key) => String(ended()[key] ?? "");

/**
 * Store the ended run that a stage shows, to show it again after a reload.
 * @param {string} key
 * @param {string} run empty to show nothing
 */
export function keepEnded(key, run) {
  if (endedAt(key) === run) return;
  try {
    sessionStorage.setItem(ENDED, JSON.stringify({ ...ended(), [key]: run }));
  } catch {
    // Without storage a reload starts from nothing.
  }
}
