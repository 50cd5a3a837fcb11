// Bars in pairs: two numbers of every word, on one scale.
import { el } from "./dom.mjs";
import { toCssLength } from "./text.mjs";

/**
 * @typedef {object} PairRow
 * @property {string} word
 * @property {(number | null)[]} values both on one scale; null if one is not known
 * @property {string} sign at the end of the row: a verdict or a number
 * @property {string} said the row in words
 * @property {boolean} [on] whether it is the chosen word
 * @property {string} [kind] class of the row
 * @property {(() => void) | null} [go] what a click does; a keyboard has the words of the text
 */

/**
 * @param {PairRow} row
 * @param {number} longest value that fills a bar
 */
const createRow = ({ word, values, sign, said, on, kind = "", go = null }, longest) =>
  el(
    "div",
    {
      class: `pb-row ${kind}${on ? " on" : ""}${go ? " go" : ""}`,
      onclick: go,
      role: "listitem",
      title: said,
      "aria-label": said,
    },
    el("span", { class: "pb-word" }, word),
    el(
      "span",
      { class: "pb-pair", "aria-hidden": "true" },
      values.map((value, i) =>
        el("i", { class: `pb-${i}`, style: { width: toCssLength(pairShare(value, longest)) } }),
      ),
    ),
    el("span", { class: "pb-sign", "aria-hidden": "true" }, sign),
  );

/**
 * The part of a bar that a value fills; nothing below zero.
 * @drawing
 * @param {number | null} value
 * @param {number} longest
 */
const pairShare = (value, longest) => Math.max(0, (value ?? 0) / longest);

/**
 * @param {PairRow[]} rows
 * @param {string[]} names what the first and the second bar of a row show
 * @param {number} longest value that fills a bar
 */
export const createPairBars = (rows, names, longest) =>
  el(
    "div",
    { class: "pb" },
    el(
      "div",
      { role: "list" },
      rows.map((row) => createRow(row, longest)),
    ),
    el(
      "div",
      { class: "pb-names" },
      names.map((name, i) => el("span", {}, el("i", { class: `pb-${i}` }), name)),
    ),
  );
