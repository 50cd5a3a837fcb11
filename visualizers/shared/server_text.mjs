// Translates sentences of the server into the page's language. They arrive with their values filled
// in, so each is matched against the catalogue's patterns, such as "{name} = {value} is not
// allowed". A value that is a sentence is translated, too. Unknown sentences stay in English.

/** @typedef {{ pattern: RegExp, names: string[], other: string }} Pattern */

const PLACEHOLDER = /\{(\w+)\}/g;
/** The space between two sentences, also after a closing quotation mark. */
const SENTENCE_GAP = /(?<=[.?…]”?) (?=\S)/g;
const MAX_DEPTH = 3;
const MAX_LENGTH = 2000;
// A pattern with fewer letters, such as "{n} of {total}", would match any text, so it matches
// numbers only.
const MIN_LETTERS = 4;
const NUMBER_GROUP = "([-−+\\d.,·⁻⁰¹²³⁴-⁹ ]+)";

/**
 * @param {string} english with its values as {name}
 * @param {string} other
 * @returns {Pattern}
 */
function createPattern(english, other) {
  const names = [...english.matchAll(PLACEHOLDER)].map((found) => found[1]);
  const fixed = english.split(/\{\w+\}/).map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  const letters = english.replace(PLACEHOLDER, "").match(/[a-z]/gi)?.length ?? 0;
  const value = letters < MIN_LETTERS ? NUMBER_GROUP : "(.+?)";
  return { pattern: new RegExp(`^${fixed.join(value)}$`, "s"), names, other };
}

/** @param {[string, string]} text */
const fixedLength = ([english]) => english.replace(PLACEHOLDER, "").length;

/** @param {Record<string, string>} texts English -> the same in another language */
export function createTranslator(texts) {
  // The pattern with the longest fixed text is tried first.
  const patterns = Object.entries(texts)
    .filter(([english]) => english.includes("{"))
    .sort((one, other) => fixedLength(other) - fixedLength(one))
    .map(([english, other]) => createPattern(english, other));
  const known = new Map(Object.entries(texts));

  /**
   * @param {string} sentence
   * @param {number} depth
   * @returns {string}
   */
  function said(sentence, depth = 0) {
    const at = known.get(sentence);
    if (at !== undefined) return at;
    if (depth === MAX_DEPTH || sentence.length > MAX_LENGTH) return sentence;
    for (const { pattern, names, other } of patterns) {
      const found = pattern.exec(sentence);
      if (!found) continue;
      const values = Object.fromEntries(
        names.map((name, i) => [name, said(found[i + 1], depth + 1)]),
      );
      return other.replace(PLACEHOLDER, (_, name) => values[name]);
    }
    return sentence;
  }
  /**
   * Translate a text sentence by sentence. Unknown parts are joined until they match, because a
   * full stop need not end a sentence.
   * @param {string} text
   */
  function row(text) {
    if (known.has(text) || text.length > MAX_LENGTH) return said(text);
    const parts = [];
    let begun = 0;
    for (const { index } of [...text.matchAll(SENTENCE_GAP), { index: text.length }]) {
      const part = text.slice(begun, index);
      const other = said(part);
      if (other === part && index < text.length) continue;
      parts.push(other);
      begun = index + 1;
    }
    return parts.join(" ");
  }
  /**
   * @template T
   * @param {T} sentence
   */
  const translate = (sentence) =>
    typeof sentence === "string" && patterns.length ? row(sentence) : sentence;
  return translate;
}

const READ_ATTRIBUTES = ["title", "aria-label"];

/**
 * Translate the text nodes, titles and labels of an element that the server rendered.
 * @param {Element} node
 * @param {string} [written] selector of text by models and people, which is not translated
 */
export function translateElement(node, written = ".t") {
  const pieces = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  while (pieces.nextNode()) {
    const piece = /** @type {Text} */ (pieces.currentNode);
    if (piece.parentElement?.closest(written)) continue;
    // The catalogue has no outer spaces, but they separate inline elements.
    const [, before, words, after] = /^(\s*)(.*?)(\s*)$/s.exec(piece.data) ?? [];
    piece.data = before + said(words) + after;
  }
  for (const name of READ_ATTRIBUTES)
    for (const one of node.querySelectorAll(`[${name}]`))
      one.setAttribute(name, said(one.getAttribute(name) ?? ""));
}

/** Translate a sentence of the server. */
export const said = createTranslator(
  JSON.parse(globalThis.document?.getElementById("dp-told")?.textContent || "{}"),
);
