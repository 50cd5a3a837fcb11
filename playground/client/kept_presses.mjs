// What this browser has asked for and has not heard the end of: whoever loads the page anew, or opens
// the address of what goes on, is given it instead of a second run.

/**
 * @typedef {object} Pressed
 * @property {string} press its name
 * @property {string} key where it is shown
 * @property {string} link the address that asks for the same
 * @property {string} run what the server calls it, once that is known
 * @property {number} number what its page knows it by
 * @property {string} page the browser's tab that asked
 * @property {number} until when nobody asks for it any more, in milliseconds
 */

const KEY = "dp-going";
const PAGE = "dp-page";
const ENDED = "dp-ended";
// The server stops what nobody follows much earlier.
const OLD_MS = 600_000;

/** Something that nobody can guess. */
export const newName = () =>
  [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");

// A browser may forbid a page to keep anything, and what is kept may be anybody's.
function all() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    const fresh = (p) => typeof p?.press === "string" && p.until > Date.now();
    return Array.isArray(kept) ? kept.filter(fresh) : [];
  } catch {
    return [];
  }
}

/** @param {Pressed[]} list */
function write(list) {
  try {
    localStorage.setItem(KEY, JSON.stringify(list));
  } catch {
    // Then a page that is loaded anew begins anew.
  }
}

/** This tab of the browser, the same after it is loaded anew; empty where the browser keeps nothing. */
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
 * @param {string} press
 * @param {string} run
 */
export function nameRun(press, run) {
  write(all().map((p) => (p.press === press ? { ...p, run } : p)));
}

/** @param {string} press */
export function forgetPress(press) {
  write(all().filter((p) => p.press !== press));
}

/**
 * What goes on under a key since before this page was loaded.
 * @param {string} key
 * @returns {Pressed | undefined}
 */
export const pressOf = (key) => all().findLast((p) => p.key === key && p.page === pageName());

/**
 * What goes on that an address asks for.
 * @param {string} link
 * @returns {Pressed | undefined}
 */
export const pressFor = (link) => (link ? all().findLast((p) => p.link === link) : undefined);

// The runs that this tab of the browser showed last, by where: a server that is started anew has them, too.
function ended() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(ENDED) ?? "{}");
    return kept && typeof kept === "object" ? kept : {};
  } catch {
    return {};
  }
}

/**
 * @param {string} key
 * @returns {string} the run that has come to its end there, empty for none
 */
export const endedAt = (key) => String(ended()[key] ?? "");

/**
 * @param {string} key
 * @param {string} run empty: nothing is to be shown there again
 */
export function keepEnded(key, run) {
  if (endedAt(key) === run) return;
  try {
    sessionStorage.setItem(ENDED, JSON.stringify({ ...ended(), [key]: run }));
  } catch {
    // Then a page that is loaded anew begins anew.
  }
}
