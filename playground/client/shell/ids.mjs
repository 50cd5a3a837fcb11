// Random ids of this page: nobody can guess them, so an id is a permission.

const TAB_KEY = "dp-page";

/** Return a random id of 128 bits, as hexadecimal digits. */
export const randomId = () =>
  [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");

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
