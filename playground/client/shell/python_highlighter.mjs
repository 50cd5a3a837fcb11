// Syntax highlighting for Python with one regular expression; not a parser.

const WORDS =
  "and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield match case";
const CONSTANTS = "True False None self";
const KINDS = new Map([
  ...WORDS.split(" ").map((word) => /** @type {[string, string]} */ ([word, "key"])),
  ...CONSTANTS.split(" ").map((word) => /** @type {[string, string]} */ ([word, "value"])),
]);
const PART =
  /(?<comment>#[^\n]*)|(?<string>[rbfuRBFU]{0,2}(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))|(?<number>\b\d[\d_.]*(?:e[+-]?\d+)?\b)|(?<word>[A-Za-z_]\w*)/g;

/**
 * Split a text into lines of [kind, text] pairs. A kind is comment, string, number, key, value,
 * name, or empty for plain text.
 * @param {string} text
 * @returns {[string, string][][]}
 */
export function coloured(text) {
  /** @type {[string, string][][]} */
  const lines = [[]];
  const add = (kind, words) => {
    for (const [i, part] of words.split("\n").entries()) {
      if (i) lines.push([]);
      if (part) lines[lines.length - 1].push([kind, part]);
    }
  };
  let at = 0;
  let before = "";
  for (const found of text.matchAll(PART)) {
    add("", text.slice(at, found.index));
    add(kindOf(found.groups, before), found[0]);
    before = found[0];
    at = found.index + found[0].length;
  }
  add("", text.slice(at));
  return lines;
}

/** @param {any} groups named groups of a match; exactly one is set */
function kindOf({ comment, string, number, word }, before) {
  if (comment) return "comment";
  if (string) return "string";
  if (number) return "number";
  if (before === "def" || before === "class") return "name";
  return KINDS.get(word) ?? "";
}
