// Words of the page in the language of its reader: the English ones are the names of the others. They stand in the
// page above its scripts, so a text may be asked for as soon as a script is read.

/** @type {HTMLElement | null | undefined} */
const given = globalThis.document?.getElementById("dp-texts");
const language = given?.lang || "en";
/** @type {Record<string, string>} English -> the same in it */
const texts = JSON.parse(given?.textContent || "{}");

export const spoken = () => language;

/**
 * A text with values in the places of their names, as in {n}.
 * @param {string} english
 * @param {Record<string, string | number>} [values]
 */
export function tr(english, values) {
  const text = texts[english] ?? english;
  return values ? text.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole)) : text;
}
