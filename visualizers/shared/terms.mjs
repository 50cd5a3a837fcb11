// Glossary terms, explained on hover, focus and tap. The glossary comes from Python with the page's
// declaration, or is part of a saved page.
import { el } from "./dom.mjs";
import { TermTooltip } from "./term_tooltip.mjs";
import { tr } from "./tr.mjs";

/**
 * Name -> definition, common mistake, and label if it differs from the name.
 * @type {Record<string, [string, string, string?]>}
 */
let glossary = {};
/** @type {TermTooltip | null} */
let tooltip = null;

/** @param {typeof glossary} terms */
export function setGlossary(terms) {
  glossary = terms;
}

/** @param {string} name */
const termLabel = (name) => glossary[name]?.[2] ?? name;

/** @param {string} name */
const termElementId = (name) => `dp-term-${name.replace(/\W+/g, "-")}`;

/**
 * A button that explains a term, or plain text if the glossary lacks it.
 * @param {string} name of the glossary entry
 * @param {Content} [text] shown instead of the entry's label
 * @param {Record<string, any>} [attrs]
 * @returns {HTMLElement}
 */
export function term(name, text = termLabel(name), attrs = {}) {
  if (!glossary[name]) return el("span", {}, text);
  const node = el(
    "button",
    { type: "button", class: "dp-term", "aria-describedby": termElementId(name), ...attrs },
    text,
  );
  if (!tooltip) tooltip = new TermTooltip();
  tooltip.of(node, name, glossary[name], termElementId(name));
  return node;
}

/**
 * A "?" for the side of a label. A term inside the label would be part of its control.
 * @param {string} name
 */
export const createTermMark = (name) =>
  term(name, "?", {
    class: "dp-term dp-mark",
    "aria-label": tr("What is meant by {name}", { name: termLabel(name) }),
  });

const TERM_PATTERN = /\[([^\]|]+)(?:\|([^\]]+))?\]/g;

/**
 * Render a sentence of the page whose terms are in brackets: "[entropy]" or "[token|tokens]".
 * @param {string} sentence
 * @returns {(string | HTMLElement)[]}
 */
export function renderTerms(sentence) {
  const parts = [];
  let at = 0;
  for (const found of sentence.matchAll(TERM_PATTERN)) {
    parts.push(sentence.slice(at, found.index), term(found[1], found[2]));
    at = found.index + found[0].length;
  }
  return [...parts, sentence.slice(at)].filter((part) => part !== "");
}

/**
 * The same sentence as plain text.
 * @param {string} sentence
 */
export const stripTerms = (sentence) =>
  sentence.replace(TERM_PATTERN, (_, name, text) => text ?? termLabel(name));
