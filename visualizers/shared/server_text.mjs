// Translates sentences of the server into the page's language. They arrive with their values filled
// in, so each is matched against the catalogue's patterns, such as "{name} = {value} is not
// allowed". A value that is a sentence is translated, too. Unknown sentences stay in English.

/** @typedef {{ pattern: RegExp, names: string[], other: string }} Pattern */

const NAMED = /\{(\w+)\}/g;
/** The space between two sentences, also after a closing quotation mark. */
const STOP = /(?<=[.?…]”?) (?=\S)/g;
const DEEPEST = 3;
const MOST = 2000;
// A pattern with fewer letters, such as "{n} of {total}", would match any text, so it matches
// numbers only.
const FEWEST_LETTERS = 4;
const NUMBER = "([-−+\\d.,·⁻⁰¹²³⁴-⁹ ]+)";

/**
 * @param {string} english with its values as {name}
 * @param {string} other
 * @returns {Pattern}
 */
function patternOf(english, other) {
  const names = [...english.matchAll(NAMED)].map((found) => found[1]);
  const fixed = english.split(/\{\w+\}/).map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  const letters = english.replace(NAMED, "").match(/[a-z]/gi)?.length ?? 0;
  const value = letters < FEWEST_LETTERS ? NUMBER : "(.+?)";
  return { pattern: new RegExp(`^${fixed.join(value)}$`, "s"), names, other };
}

/** @param {[string, string]} text */
const fixedOf = ([english]) => english.replace(NAMED, "").length;

/** @param {Record<string, string>} texts English -> the same in another language */
export function sayer(texts) {
  // The pattern with the longest fixed text is tried first.
  const patterns = Object.entries(texts)
    .filter(([english]) => english.includes("{"))
    .sort((one, other) => fixedOf(other) - fixedOf(one))
    .map(([english, other]) => patternOf(english, other));
  const known = new Map(Object.entries(texts));

  function said(sentence, depth = 0) {
    const at = known.get(sentence);
    if (at !== undefined) return at;
    if (depth === DEEPEST || sentence.length > MOST) return sentence;
    for (const { pattern, names, other } of patterns) {
      const found = pattern.exec(sentence);
      if (!found) continue;
      const values = Object.fromEntries(
        names.map((name, i) => [name, said(found[i + 1], depth + 1)]),
      );
      return other.replace(NAMED, (_, name) => values[name]);
    }
    return sentence;
  }
  // Translate a text sentence by sentence. Unknown parts are joined until they match, because a
  // full stop need not end a sentence.
  function row(text) {
    if (known.has(text) || text.length > MOST) return said(text);
    const parts = [];
    let begun = 0;
    for (const { index } of [...text.matchAll(STOP), { index: text.length }]) {
      const part = text.slice(begun, index);
      const other = said(part);
      if (other === part && index < text.length) continue;
      parts.push(other);
      begun = index + 1;
    }
    return parts.join(" ");
  }
  return (sentence) => (typeof sentence === "string" && patterns.length ? row(sentence) : sentence);
}

const READ = ["title", "aria-label"];

/**
 * Translate the text nodes, titles and labels of an element that the server rendered.
 * @param {Element} node
 * @param {string} [written] selector of text by models and people, which is not translated
 */
export function sayWithin(node, written = ".t") {
  const pieces = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  while (pieces.nextNode()) {
    const piece = /** @type {Text} */ (pieces.currentNode);
    if (piece.parentElement?.closest(written)) continue;
    // The catalogue has no outer spaces, but they separate inline elements.
    const [, before, words, after] = /^(\s*)(.*?)(\s*)$/s.exec(piece.data) ?? [];
    piece.data = before + said(words) + after;
  }
  for (const name of READ)
    for (const one of node.querySelectorAll(`[${name}]`))
      one.setAttribute(name, said(one.getAttribute(name)));
}

/** Translate a sentence of the server. */
export const said = sayer(
  JSON.parse(globalThis.document?.getElementById("dp-told")?.textContent || "{}"),
);
