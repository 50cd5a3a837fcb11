// Translates sentences of the server into the page's language. A sentence arrives in English; the
// message that contains it also has its template and values, such as "{name} = {value} is not
// allowed". The catalogue maps templates to translations. A value that is a sentence is translated,
// too. Unknown sentences stay in English.

import { numberSign, quoteText } from "./text.mjs";
import { pageLanguage } from "./tr.mjs";

/** @typedef {{ template: string, values: Record<string, string> }} Source */
/** @typedef {Record<string, Source>} Templates */

const PLACEHOLDER = /\{(\w+)\}/g;
const MAX_DEPTH = 8;
const MAX_SOURCES = 20_000;

/** Templates and values of the sentences that have arrived. @type {Map<string, Source>} */
const sources = new Map();

/** @param {string} template @param {Record<string, string>} values */
const fill = (template, values) =>
  template.replace(PLACEHOLDER, (found, name) =>
    Object.hasOwn(values, name) ? values[name] : found,
  );

/**
 * Remember the templates of a message's sentences.
 * @param {Templates} [templates]
 */
export function addTemplates(templates) {
  for (const [sentence, { template, values }] of Object.entries(templates ?? {})) {
    // A recording can come from anyone. It must not give a sentence another meaning, nor hide
    // values that the sentence does not contain: they could hold any number of others.
    const named = new Set([...template.matchAll(PLACEHOLDER)].map((found) => found[1]));
    if (!Object.keys(values).every((name) => named.has(name))) continue;
    if (fill(template, values) !== sentence) continue;
    sources.delete(sentence);
    sources.set(sentence, { template, values });
  }
  for (const oldest of sources.keys()) {
    if (sources.size <= MAX_SOURCES) break;
    sources.delete(oldest);
  }
}

/**
 * Return the templates of the sentences inside a value, for a file that others open.
 * @param {any} value as JSON
 * @returns {Templates}
 */
export function collectTemplates(value, /** @type {Templates} */ found = {}) {
  if (value !== null && typeof value === "object") {
    for (const part of Object.values(value)) collectTemplates(part, found);
    return found;
  }
  const source = sources.get(value);
  if (source && !Object.hasOwn(found, value)) {
    found[value] = source;
    collectTemplates(source.values, found);
  }
  return found;
}

/**
 * Parse a message of the server and remember the templates of its sentences.
 * @param {string} text JSON
 */
export function parseMessage(text) {
  const message = JSON.parse(text);
  addTemplates(message?.templates);
  return message;
}

/**
 * Parse the body of an answer of the server; rejects if it is not JSON.
 * @param {Response} response
 */
export const readMessage = async (response) => parseMessage(await response.text());

const SERVER_NUMBER = /^[<>+−-]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?( [%σ]| [·×] 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?$/;

/**
 * Write a number of the server with the reader's signs; another text stays as it is.
 * @param {string} text
 */
function localizeNumber(text) {
  if (!SERVER_NUMBER.test(text)) return text;
  return text.replace(/[.,]/g, (found) => numberSign(found === "." ? "decimal" : "group"));
}

const SERVER_QUOTE = /^“([^“”]*)”$/;

/**
 * Write a number or a quoted text of the server with the reader's signs.
 * @param {string} text
 */
function localizeValue(text) {
  const quoted = SERVER_QUOTE.exec(text);
  return quoted ? quoteText(quoted[1]) : localizeNumber(text);
}

/** @param {Record<string, string>} texts English template -> the same in another language */
export function createTranslator(texts) {
  const known = new Map(Object.entries(texts));

  /**
   * @param {string} sentence
   * @param {number} depth
   * @returns {string}
   */
  function translateText(sentence, depth = 0) {
    const other = known.get(sentence);
    if (other !== undefined) return other;
    const source = sources.get(sentence);
    if (!source || depth === MAX_DEPTH) return localizeValue(sentence);
    const values = Object.entries(source.values).map(([n, v]) => [n, translateText(v, depth + 1)]);
    return fill(known.get(source.template) ?? source.template, Object.fromEntries(values));
  }
  /**
   * @template T
   * @param {T} sentence
   */
  const translate = (sentence) =>
    typeof sentence === "string" && known.size ? translateText(sentence) : sentence;
  return translate;
}

const READ_ATTRIBUTES = ["title", "aria-label"];
/** Attribute of elements that the server rendered, with the templates of their sentences. */
const MARK = "data-templates";

/**
 * Remember the templates of an element and of those inside it.
 * @param {Element} node
 */
function readMarks(node) {
  for (const marked of [node, ...node.querySelectorAll(`[${MARK}]`)]) {
    addTemplates(JSON.parse(marked.getAttribute(MARK) ?? "{}"));
    // A translated number reads as an English one: "1,234" would become "1.234".
    marked.removeAttribute(MARK);
  }
}

/**
 * Translate the text nodes, titles and labels of an element that the server rendered.
 * @param {Element} node
 * @param {string} [written] selector of text by models and people, which is not translated
 */
export function translateElement(node, written = ".t") {
  readMarks(node);
  const pieces = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  while (pieces.nextNode()) {
    const piece = /** @type {Text} */ (pieces.currentNode);
    if (piece.parentElement?.closest(written)) continue;
    // The catalogue has no outer spaces, but they separate inline elements.
    const [, before, words, after] = /^(\s*)(.*?)(\s*)$/s.exec(piece.data) ?? [];
    piece.data = before + said(words) + after;
  }
  for (const name of READ_ATTRIBUTES)
    for (const one of [node, ...node.querySelectorAll(`[${name}]`)])
      if (one.hasAttribute(name)) one.setAttribute(name, said(one.getAttribute(name) ?? ""));
}

/**
 * Translate every marked element of a page as soon as it arrives.
 * @param {Element} root
 */
export function translateArrivals(root) {
  if (pageLanguage() === "en") return;
  const translate = () => {
    for (const marked of root.querySelectorAll(`[${MARK}]`)) translateElement(marked);
  };
  // Gradio replaces a value in place, which can leave an element and set its attribute again.
  const arrivals = { subtree: true, childList: true, attributeFilter: [MARK] };
  new MutationObserver(translate).observe(root, arrivals);
  translate();
}

/** Translate a sentence of the server. */
export const said = createTranslator(
  JSON.parse(globalThis.document?.getElementById("dp-told")?.textContent || "{}"),
);
