// Sentences that come from the server, in the language of the page's reader. They are written there with values in
// them: the words of a language hold their patterns, as in "{name} = {value} is not allowed", and a value that is a
// sentence of its own is said in that language, too. What is not known stays as it came.

/** @typedef {{ pattern: RegExp, names: string[], other: string }} Pattern */

const NAMED = /\{(\w+)\}/g;
const DEEPEST = 3;
const MOST = 2000;

/**
 * @param {string} english with its values as {name}
 * @param {string} other
 * @returns {Pattern}
 */
function patternOf(english, other) {
  const names = [...english.matchAll(NAMED)].map((found) => found[1]);
  const fixed = english.split(/\{\w+\}/).map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return { pattern: new RegExp(`^${fixed.join("(.+?)")}$`, "s"), names, other };
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
  return (sentence) =>
    typeof sentence === "string" && patterns.length ? said(sentence) : sentence;
}

/** A sentence of the server's, as its reader reads it. */
export const said = sayer(
  JSON.parse(globalThis.document?.getElementById("dp-told")?.textContent || "{}"),
);
