// Words of the page in the language of its reader: the English ones are the names of the others.

/** @type {Record<string, string>} */
let texts = {};
let language = "en";

/**
 * @param {string} name of the language
 * @param {Record<string, string>} given English -> the same in it
 */
export function speak(name, given) {
  language = name;
  texts = given;
}

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
