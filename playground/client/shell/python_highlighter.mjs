// Syntax highlighting for Python with one regular expression; not a parser.

const KEYWORDS =
  "and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield match case";
const CONSTANTS = "True False None self";
const WORD_KINDS = new Map([
  ...KEYWORDS.split(" ").map((word) => /** @type {[string, string]} */ ([word, "key"])),
  ...CONSTANTS.split(" ").map((word) => /** @type {[string, string]} */ ([word, "value"])),
]);
const TOKEN_PATTERN =
  /(?<comment>#[^\n]*)|(?<string>[rbfuRBFU]{0,2}(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))|(?<number>\b\d[\d_.]*(?:e[+-]?\d+)?\b)|(?<word>[A-Za-z_]\w*)/g;

/**
 * Split a text into lines of [kind, text] pairs. A kind is comment, string, number, key, value,
 * name, or empty for plain text.
 * @param {string} text
 * @returns {[string, string][][]}
 */
export function highlightLines(text) {
  /** @type {[string, string][][]} */
  const lines = [[]];
  /**
   * @param {string} kind
   * @param {string} words
   */
  const add = (kind, words) => {
    for (const [i, part] of words.split("\n").entries()) {
      if (i) lines.push([]);
      if (part) lines[lines.length - 1].push([kind, part]);
    }
  };
  let at = 0;
  let before = "";
  for (const found of text.matchAll(TOKEN_PATTERN)) {
    add("", text.slice(at, found.index));
    add(tokenKind(found.groups, before), found[0]);
    before = found[0];
    at = found.index + found[0].length;
  }
  add("", text.slice(at));
  return lines;
}

/**
 * @param {any} groups named groups of a match; exactly one is set
 * @param {string} before
 */
function tokenKind({ comment, string, number, word }, before) {
  if (comment) return "comment";
  if (string) return "string";
  if (number) return "number";
  if (before === "def" || before === "class") return "name";
  return WORD_KINDS.get(word) ?? "";
}
