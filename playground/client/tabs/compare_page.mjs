// The layout of the compare tab: prompt, verdict, texts, measures, and two drawers.
import { el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

/**
 * What the tab is made of; all of it is created by its comparison.
 * @typedef {object} CompareParts
 * @property {HTMLElement} media
 * @property {HTMLElement} prompt
 * @property {HTMLElement[]} buttons
 * @property {HTMLInputElement} seeds
 * @property {HTMLElement} examples
 * @property {HTMLElement} note
 * @property {HTMLElement} verdict
 * @property {HTMLElement} chosenSeed
 * @property {HTMLElement} texts
 * @property {HTMLElement} measures
 * @property {HTMLElement} settings
 * @property {HTMLElement} add
 * @property {HTMLElement} judge
 * @property {HTMLElement} weights
 * @property {HTMLElement} more
 */

/**
 * Return the elements of the tab in their order.
 * @param {CompareParts} parts
 */
export const createComparePage = (parts) => [
  el("h2", { class: "dp-sr" }, tr("Compare")),
  el(
    "div",
    { class: "cmp-ask" },
    el(
      "div",
      { class: "dp-top" },
      parts.media,
      parts.prompt,
      el("div", { class: "f-acts" }, parts.buttons),
    ),
    el(
      "div",
      { class: "cmp-line" },
      el("label", {}, tr("Seeds"), parts.seeds),
      el("span", { class: "cmp-hint" }, tr("such as 0, 1, 2 or 0-4; at most five")),
      parts.examples,
    ),
    parts.note,
  ),
  parts.verdict,
  parts.chosenSeed,
  parts.texts,
  parts.measures,
  el(
    "details",
    { class: "cmp-drawer" },
    el("summary", {}, tr("Settings of the texts")),
    parts.settings,
    el("div", { class: "cmp-judge" }, parts.add, parts.judge, parts.weights),
  ),
  el("details", { class: "cmp-drawer" }, el("summary", {}, tr("More")), parts.more),
];

/**
 * Return the media of a form: the first picture and sound of its columns, and all speech options.
 * @param {Record<string, any>[]} columns
 */
export function collectMedia(columns) {
  /** @param {string} kind */
  const given = (kind) => columns.map((column) => column[kind]).find(Boolean);
  const speech = Object.assign({}, ...columns.map((column) => column.speech));
  return { image: given("image"), audio: given("audio"), speech };
}
