// The table of measures of a comparison: one bar per run and measure, and a tick per seed.
import { createScroller, el } from "../shared/dom.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { formatNumber, formatWholePercent, toCssLength } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/**
 * A row of the table; see ``compute_measures``.
 * @typedef {{ name: string, cells: MeasureCell[] }} MeasureRow
 * @typedef {{ mean: number | null, share: number, ticks: { value: number, share: number }[] }} MeasureCell
 */

/** Name of a measure -> its title and how its values read. @type {Record<string, [string, (value: number) => string]>} */
const MEASURES = {
  perplexity: [tr("[perplexity|Perplexity] for the judge"), formatNumber],
  repeats: [tr("Repeated [n-gram|runs] of three tokens"), formatWholePercent],
  variety: [tr("Different tokens"), formatWholePercent],
  tokens: [tr("Tokens"), (value) => formatNumber(value, 1)],
  passes: [tr("Passes of the model"), (value) => formatNumber(value, 1)],
  seconds: [tr("Seconds"), (value) => formatNumber(value, 1)],
};

/**
 * Create the table of measures.
 * @param {MeasureRow[]} rows
 * @param {string[]} heads title of each run
 * @param {boolean} several whether there are several seeds, each of which has a tick
 */
export function createMeasureTable(rows, heads, several) {
  const head = el(
    "tr",
    {},
    ["", ...heads].map((text) => el("th", { scope: "col" }, text)),
  );
  return el(
    "div",
    {},
    createScroller(
      tr("Measures of every text"),
      el(
        "table",
        { class: "dp-table cmp-table" },
        el("thead", {}, head),
        el(
          "tbody",
          {},
          rows.map((row) => createRow(row, several)),
        ),
      ),
    ),
    several ? createKey() : null,
  );
}

/**
 * @param {MeasureRow} row
 * @param {boolean} several
 */
function createRow({ name, cells }, several) {
  const [title, format] = MEASURES[name];
  return el(
    "tr",
    { "data-measure": name },
    el("th", { scope: "row" }, renderTerms(title)),
    cells.map((cell) => el("td", {}, createCell(cell, format, several))),
  );
}

/**
 * @param {MeasureCell} cell
 * @param {(value: number) => string} format
 * @param {boolean} several
 */
function createCell({ mean, share, ticks }, format, several) {
  if (mean === null) return el("span", { class: "cmp-value" }, tr("not recorded"));
  const values = ticks.map(({ value }) => format(value)).join(" · ");
  const marks = several
    ? ticks.map((tick) => el("u", { style: { left: toCssLength(tick.share) } }))
    : [];
  return el(
    "div",
    { class: "cmp-measure", title: several ? tr("By seed: {values}", { values }) : null },
    el("span", { class: "cmp-value" }, format(mean)),
    el(
      "span",
      { class: "cmp-bar", "aria-hidden": "true" },
      el("i", { style: { width: toCssLength(share) } }),
      marks,
    ),
  );
}

const createKey = () =>
  el(
    "p",
    { class: "cmp-key" },
    el("span", {}, el("i", {}), tr("mean of the seeds")),
    el("span", {}, el("u", {}), tr("one seed")),
  );
