// Unsaved changes to a method's files, stored in this browser.

const KEY = "dp-method-drafts";

/** @typedef {{ text: string, mark: string }} Draft mark: version of the saved file it changes */

// The browser may block storage, and stored data may come from another program: check everything.
function readUnsaved() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return kept && typeof kept === "object" ? kept : {};
  } catch {
    return {};
  }
}

/**
 * @param {string} name
 * @param {string} path
 */
const fileKey = (name, path) => `${name}/${path}`;

/**
 * Return the unsaved change of a file, null for none.
 * @param {string} name
 * @param {string} path
 * @returns {Draft | null}
 */
export function loadUnsaved(name, path) {
  const kept = readUnsaved()[fileKey(name, path)];
  return typeof kept?.text === "string" && typeof kept.mark === "string" ? kept : null;
}

/**
 * Store the unsaved change of a file.
 * @param {string} name
 * @param {string} path
 * @param {Draft | null} draft null deletes it
 * @returns {boolean} whether the browser allowed it
 */
export function storeUnsaved(name, path, draft) {
  const kept = readUnsaved();
  if (draft) kept[fileKey(name, path)] = draft;
  else delete kept[fileKey(name, path)];
  try {
    localStorage.setItem(KEY, JSON.stringify(kept));
    return true;
  } catch {
    return false;
  }
}
