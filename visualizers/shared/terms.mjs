// Glossary terms, explained on hover, focus and tap. The glossary comes from Python with the page's
// declaration, or is part of a saved page.
import { el } from "./dom.mjs";
import { Meaning } from "./term_tooltip.mjs";
import { tr } from "./tr.mjs";

/**
 * Name -> definition, common mistake, and label if it differs from the name.
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
 * A button that explains a term, or plain text if the glossary lacks it.
 * @param {string} name of the glossary entry
 * @param {any} [text] shown instead of the entry's label
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

// A "?" for the side of a label. A term inside the label would be part of its control.
export const mark = (name) =>
  term(name, "?", {
    class: "dp-term dp-mark",
    "aria-label": tr("What is meant by {name}", { name: calledOf(name) }),
  });

const MARKED = /\[([^\]|]+)(?:\|([^\]]+))?\]/g;

/**
 * Render a sentence of the page whose terms are in brackets: "[entropy]" or "[token|tokens]".
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

/** The same sentence as plain text. */
export const plain = (sentence) =>
  sentence.replace(MARKED, (_, name, text) => text ?? calledOf(name));
