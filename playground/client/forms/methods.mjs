// The server's data about custom generation methods: cached by name, with change notifications.
import { askWhenReady } from "../shell/questions.mjs";

/**
 * One of a method's own arguments.
 * @typedef {{ name: string, kind: string, default: any, required: boolean, told: string }} Argument
 *
 * Details of a method: an error, or `to_fetch`, or all other fields.
 * @typedef {object} Method
 * @property {string} name
 * @property {string} [error]
 * @property {boolean} [to_fetch] on the hub but not on this machine
 * @property {string} source
 * @property {string | null} revision
 * @property {string} sha256
 * @property {string} summary
 * @property {Argument[]} arguments
 * @property {Record<string, string>} files
 * @property {boolean} trusted
 * @property {boolean} own made on this page
 * @property {string} why_not why it may not run, empty if it may
 * @property {boolean} can_trust
 *
 * @typedef {{ name: string, told: string, group: string, tab: string | null }} Offered
 * @typedef {{ offers: Offered[], starters: string[], makes: boolean, folder: string, shut_in: string }} Listed
 */

/** @type {Map<string, Promise<Method>>} */
const methodCache = new Map();
/** @type {Promise<Listed> | null} */
let methodList = null;
const watchers = new Set();

/**
 * Return the list of available methods and templates, cached until a method changes.
 * @returns {Promise<Listed>}
 */
export function fetchMethodList() {
  methodList ??= askWhenReady({ action: "methods" });
  return methodList;
}

/**
 * Return the details of a method, cached until it changes.
 * @param {string} name
 * @returns {Promise<Method>}
 */
export function fetchMethodInfo(name) {
  const before = methodCache.get(name);
  if (before) return before;
  const found = askWhenReady({ action: "method", name }).then((told) => ({ name, ...told }));
  methodCache.set(name, found);
  return found;
}

/**
 * Search the hub for methods by their tag, on the visitor's request.
 * @param {string} press id that stops the search
 * @returns {Promise<{ offers: Offered[], error?: string }>}
 */
export const searchHubMethods = (press) => askWhenReady({ action: "method_search", press });

/**
 * Download a method from the hub to this machine, on the visitor's request.
 * @param {string} name
 * @param {string} press id that stops the download
 */
export async function downloadMethod(name, press) {
  const told = await askWhenReady({ action: "method", name, press, fetch: true });
  if (!told.error) updateMethod(name, told);
  return told;
}

/**
 * Allow the displayed code to run; its hash guards against a change since it was shown.
 * @param {Method} shown
 */
export async function trustMethod({ name, sha256 }) {
  const told = await askWhenReady({ action: "method_trust", name, sha256 });
  if (!told.error) updateMethod(name, told);
  return told;
}

/**
 * Replace or drop the cached details of a method, and notify the watchers.
 * @param {string} name
 * @param {Method} [told] new details, if known
 */
export function updateMethod(name, told) {
  if (told) methodCache.set(name, Promise.resolve({ ...told, name }));
  else methodCache.delete(name);
  methodList = null;
  for (const changed of watchers) changed(name);
}

/**
 * Call a function with a method's name whenever its details change.
 * @param {(name: string) => void} changed
 */
export const watchMethods = (changed) => watchers.add(changed);
