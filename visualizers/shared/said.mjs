// Sentences that come from the server, in the language of the page's reader. They are written there with values in
// them: the words of a language hold their patterns, as in "{name} = {value} is not allowed", and a value that is a
// sentence of its own is said in that language, too. What is not known stays as it came.

/** @typedef {{ pattern: RegExp, names: string[], other: string }} Pattern */

const NAMED = /\{(\w+)\}/g;
/** The space between two sentences. */
const STOP = /(?<=[.?…]”?) (?=\S)/g;
const DEEPEST = 3;
const MOST = 2000;
// A pattern with next to no words of its own, as "{n} of {total}", would take anything: it takes numbers.
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
  // What says more of itself is tried first.
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
  // Sentences in a row are said one by one, each as far as the first full stop with which it is known.
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
 * What the server has drawn, in the language of its reader; what was written by models and people stays.
 * @param {Element} node
 * @param {string} [written] selects what stays
 */
export function sayWithin(node, written = ".t") {
  const pieces = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  while (pieces.nextNode()) {
    const piece = /** @type {Text} */ (pieces.currentNode);
    if (piece.parentElement?.closest(written)) continue;
    // Spaces at the edges hold words apart.
    const [, before, words, after] = /^(\s*)(.*?)(\s*)$/s.exec(piece.data) ?? [];
    piece.data = before + said(words) + after;
  }
  for (const name of READ)
    for (const one of node.querySelectorAll(`[${name}]`))
      one.setAttribute(name, said(one.getAttribute(name)));
}

/** A sentence of the server's, as its reader reads it. */
export const said = sayer(
  JSON.parse(globalThis.document?.getElementById("dp-told")?.textContent || "{}"),
);
