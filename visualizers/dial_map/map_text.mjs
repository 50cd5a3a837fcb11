// What maps of one and of two dials show of a text: its words, its figures, and how wide their pictures are.
import { el } from "../shared/dom.mjs";
import { term } from "../shared/terms.mjs";
import { formatFixed, formatPercent, makeVisible } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { countShared } from "./intervals.mjs";

/** @type {[string, Content, (x: number) => string][]} */
export const FIGURES = [
  ["perplexity", term("perplexity"), formatFixed],
  ["rep_3", term("rep-n", tr("repeated 3-grams")), formatPercent],
  ["distinct_2", tr("different 2-grams"), formatPercent],
  ["tokens", tr("tokens"), String],
];

/**
 * Show a text of a map with what differs from the run's text in bold, and return it as plain words.
 * @param {HTMLElement} node
 * @param {{ token_ids: number[], end: string }} text
 * @param {Record<string, string>} pieces
 * @param {number[]} own tokens of the run's text
 * @param {boolean} isWhole whether the text ends where the map does
 */
export function showText(node, { token_ids, end }, pieces, own, isWhole) {
  const shown = end === "eos" ? token_ids.slice(0, -1) : token_ids;
  const shared = countShared(shown, own);
  const words = (/** @type {number[]} */ ids) => ids.map((id) => pieces[id]).join("");
  node.replaceChildren(
    words(shown.slice(0, shared)),
    el("b", { class: "di-new" }, words(shown.slice(shared))),
    isWhole ? "" : "…",
  );
  return makeVisible(words(shown));
}

/**
 * Call a function with the width of an element, whenever it is another one.
 * @param {Element} node
 * @param {(width: number) => void} draw
 */
export function watchWidth(node, draw) {
  let known = 0;
  new ResizeObserver(([{ contentRect }]) => {
    const width = Math.round(contentRect.width);
    if (width === known) return;
    known = width;
    draw(width);
  }).observe(node);
}
