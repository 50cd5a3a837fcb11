// What the server says of custom generation methods, asked once for each name, and whoever wants to know when
// something of it has changed.
import { ask, connectedAsk } from "./ask.mjs";

/**
 * One argument that a method has of its own.
 * @typedef {{ name: string, kind: string, default: any, required: boolean, told: string }} Argument
 *
 * What is known of a method: an error, or that it has to be fetched, or all of the rest.
 * @typedef {object} Method
 * @property {string} name
 * @property {string} [error]
 * @property {boolean} [to_fetch] it is on the hub and not on this machine
 * @property {string} source
 * @property {string | null} revision
 * @property {string} sha256
 * @property {string} summary
 * @property {Argument[]} arguments
 * @property {Record<string, string>} files
 * @property {boolean} trusted
 * @property {boolean} own whether it was made on the page
 * @property {string} why_not why it may not run, empty where it may
 * @property {boolean} can_trust
 *
 * @typedef {{ name: string, told: string, group: string, tab: string | null }} Offered
 * @typedef {{ offers: Offered[], templates: string[], makes: boolean, folder: string, shut_in: string }} Listed
 */

/** @type {Map<string, Promise<Method>>} */
const known = new Map();
/** @type {Promise<Listed> | null} */
let list = null;
const watchers = new Set();

const question = async (asked) => {
  await connectedAsk;
  return ask(asked);
};

/** @returns {Promise<Listed>} */
export function listed() {
  list ??= question({ action: "methods" });
  return list;
}

/**
 * @param {string} name
 * @returns {Promise<Method>}
 */
export function method(name) {
  const before = known.get(name);
  if (before) return before;
  const found = question({ action: "method", name }).then((told) => ({ name, ...told }));
  known.set(name, found);
  return found;
}

/**
 * Bring a method of the hub to this machine, because somebody has asked for it.
 * @param {string} name
 * @param {string} press what stops it
 */
export async function fetchMethod(name, press) {
  const told = await question({ action: "method", name, press, fetch: true });
  if (!told.error) learnt(name, told);
  return told;
}

/**
 * Let the code run that was shown.
 * @param {Method} shown
 */
export async function trustMethod({ name, sha256 }) {
  const told = await question({ action: "method_trust", name, sha256 });
  if (!told.error) learnt(name, told);
  return told;
}

/**
 * What was known of a method holds no longer.
 * @param {string} name
 * @param {Method} [told] what holds now, where the server has said it
 */
export function learnt(name, told) {
  if (told) known.set(name, Promise.resolve({ ...told, name }));
  else known.delete(name);
  list = null;
  for (const changed of watchers) changed(name);
}

/** @param {(name: string) => void} changed */
export const watchMethods = (changed) => watchers.add(changed);
