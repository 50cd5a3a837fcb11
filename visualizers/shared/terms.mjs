// The words of the field, explained where they stand: on hover, focus and tap. What they mean comes from
// Python with the page's declaration, or stands in a saved page.
import { el } from "./dom.mjs";
import { Meaning } from "./meaning.mjs";
import { tr } from "./tr.mjs";

/**
 * Name -> what it is, the mistake it invites, and what it is called where that is another word.
 * @type {Record<string, [string, string, string?]>}
 */
let known = {};
let meaning = null;

export function explain(terms) {
  known = terms;
}

const calledOf = (name) => known[name]?.[2] ?? name;

const idOf = (name) => `dp-term-${name.replace(/\W+/g, "-")}`;

/**
 * A word that explains itself; without its meaning it is just a word.
 * @param {string} name of the glossary's entry
 * @param {any} [text] as it stands here
 * @param {Record<string, any>} [attrs]
 * @returns {HTMLElement}
 */
export function term(name, text = calledOf(name), attrs = {}) {
  if (!known[name]) return el("span", {}, text);
  const node = el(
    "button",
    { type: "button", class: "dp-term", "aria-describedby": idOf(name), ...attrs },
    text,
  );
  if (!meaning) meaning = new Meaning();
  meaning.of(node, name, known[name], idOf(name));
  return node;
}

// A mark beside a label, whose own text belongs to its control.
export const mark = (name) =>
  term(name, "?", {
    class: "dp-term dp-mark",
    "aria-label": tr("What is meant by {name}", { name: calledOf(name) }),
  });

const MARKED = /\[([^\]|]+)(?:\|([^\]]+))?\]/g;

/**
 * A sentence of ours whose terms stand in brackets, "[entropy]" or "[token|tokens]".
 * @param {string} sentence
 * @returns {(string | HTMLElement)[]}
 */
export function told(sentence) {
  const parts = [];
  let at = 0;
  for (const found of sentence.matchAll(MARKED)) {
    parts.push(sentence.slice(at, found.index), term(found[1], found[2]));
    at = found.index + found[0].length;
  }
  return [...parts, sentence.slice(at)].filter((part) => part !== "");
}

/** The same sentence without its terms. */
export const plain = (sentence) =>
  sentence.replace(MARKED, (_, name, text) => text ?? calledOf(name));
