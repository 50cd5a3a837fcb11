// Translates texts of the page; the English text is the catalogue's key. The catalogue is an
// element above the page's scripts, so modules can translate their constants while they load.

/** @type {HTMLElement | null | undefined} */
const textsElement = globalThis.document?.getElementById("dp-texts");
const language = textsElement?.lang || "en";
/** @type {Record<string, string>} English -> the same in it */
const texts = JSON.parse(textsElement?.textContent || "{}");

export const pageLanguage = () => language;

/**
 * A whole number stays as it is, as it may be a seed or the name of a step.
 * @param {string | number} value
 */
const toText = (value) =>
  typeof value === "number" && !Number.isInteger(value)
    ? value.toLocaleString(language, { maximumSignificantDigits: 6 }).replace("-", "−")
    : String(value);

/**
 * Translate a text and fill in its values, such as {n}.
 * @param {string} english
 * @param {Record<string, string | number>} [values]
 */
export function tr(english, values) {
  const text = texts[english] ?? english;
  return values ? text.replace(/\{(\w+)\}/g, (whole, name) => toText(values[name] ?? whole)) : text;
}
