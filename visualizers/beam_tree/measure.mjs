// Widths of words as the tree draws them.
import { el } from "../shared/dom.mjs";
import { FONT_SIZE } from "./geometry.mjs";

// Width of a letter where there is no canvas to measure with.
const LETTER_WIDTH = FONT_SIZE / 2;

/**
 * Returns a function that measures words in bold, so that they have room when they become part of
 * the leading text.
 * @param {Element} node has the font family
 */
export function createMeasure(node) {
  const context = el("canvas").getContext("2d");
  if (context) context.font = `650 ${FONT_SIZE}px ${getComputedStyle(node).fontFamily || "serif"}`;
  /** @type {Map<string, number>} */
  const known = new Map();
  /** @param {string} word */
  return (word) => {
    const width = known.get(word) ?? context?.measureText(word).width ?? word.length * LETTER_WIDTH;
    known.set(word, width);
    return Math.ceil(width);
  };
}
