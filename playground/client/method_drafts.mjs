// What was typed into a method's files and is not saved yet: this browser keeps it.

const KEY = "dp-method-drafts";

/** @typedef {{ text: string, mark: string }} Draft a text, and the mark of the saved one it changes */

// A browser may forbid a page to keep anything, and what is kept may be anybody's.
function all() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return kept && typeof kept === "object" ? kept : {};
  } catch {
    return {};
  }
}

const place = (name, path) => `${name}/${path}`;

/**
 * @param {string} name
 * @param {string} path
 * @returns {Draft | null}
 */
export function draftOf(name, path) {
  const kept = all()[place(name, path)];
  return typeof kept?.text === "string" && typeof kept.mark === "string" ? kept : null;
}

/**
 * @param {string} name
 * @param {string} path
 * @param {Draft | null} draft null forgets it
 * @returns {boolean} whether it is kept
 */
export function keepDraft(name, path, draft) {
  const kept = all();
  if (draft) kept[place(name, path)] = draft;
  else delete kept[place(name, path)];
  try {
    localStorage.setItem(KEY, JSON.stringify(kept));
    return true;
  } catch {
    return false;
  }
}
