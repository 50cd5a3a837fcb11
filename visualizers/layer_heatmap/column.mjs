// Details of one step: the reading of every layer, and the effect of the contrast on the output.
import { createScroller, createTable, createTableHead, el } from "../shared/dom.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { formatCount, formatFixed, formatPercent, tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import {
  formatValue,
  isLayerStep,
  layerName,
  layerRole,
  PROJECTION_NAMES,
  readValue,
  toColourValue,
  topTokens,
  VALUE_NAMES,
  VALUE_TEXT,
} from "./values.mjs";

/**
 * Widths of the bars in percent of the range from the least
 * to the greatest value, which includes 0.
 * @param {(number | null)[]} numbers
 */
function computeBarWidths(numbers) {
  const finite = numbers.filter((x) => x !== null);
  const low = Math.min(...finite, 0);
  const high = Math.max(...finite, 0);
  return numbers.map((x) => (x === null || high === low ? 0 : (100 * (x - low)) / (high - low)));
}

/** @param {number} width */
const createBar = (width) =>
  el(
    "span",
    { class: "lh-bar", "aria-hidden": "true" },
    el("i", { style: { width: `${width}%` } }),
  );

/**
 * @param {Run} run
 * @param {Step} step
 * @param {string} value
 * @param {string} projection
 */
function createLayerRows(run, step, value, projection) {
  /** @type {LayerDetail} */
  const { layers, premature_layer: contrasted } = step.detail;
  const numbers = layers.map((_, i) => readValue(run, step, i, value, projection));
  const wide = computeBarWidths(numbers.map((x) => toColourValue(value, x)));
  /** @param {[number, number]} pair */
  const top = ([id, p]) =>
    el(
      "span",
      { class: id === step.emit[0] ? "hit" : null },
      tokenLabel(run, id),
      el("small", {}, formatPercent(p)),
    );
  const rows = layers.map((reading, i) =>
    el(
      "tr",
      { class: i === contrasted ? "on" : null },
      el("th", { scope: "row" }, layerName(i, layers.length)),
      el("td", { class: "role" }, layerRole(step.detail, i)),
      el(
        "td",
        { class: "val" },
        createBar(wide[i]),
        el("span", {}, formatValue(value, numbers[i])),
      ),
      el("td", { class: "tops" }, topTokens(reading, projection).map(top)),
    ),
  );
  return rows.reverse();
}

/**
 * @param {Run} run
 * @param {Step} step
 * @param {string} value
 * @param {string} projection
 */
export function createColumn(run, step, value, projection) {
  const head = [
    tr("layer"),
    tr("role"),
    VALUE_NAMES[value],
    tr("top tokens (the emitted one framed)"),
  ];
  const title = tr("Step {step}: “{token}” layer by layer, {how}", {
    step: step.index + 1,
    token: tokenLabel(run, step.emit[0]),
    how: PROJECTION_NAMES[projection],
  });
  const body = el("tbody", {}, createLayerRows(run, step, value, projection));
  const whole = el("table", { class: "dp-table lh-table" }, createTableHead(head), body);
  return [el("h4", {}, title), createScroller(tr("The selected step's layers"), whole)];
}

/**
 * @param {Run} run
 * @param {Step} step
 * @param {string} title
 * @param {[number, number][]} pairs
 * @param {(x: number) => string} show
 */
function createTokenList(run, step, title, pairs, show) {
  /** @param {[number, number]} pair */
  const item = ([id, x]) =>
    el(
      "li",
      { class: id === step.emit[0] ? "on" : null },
      el("span", { class: "t" }, tokenLabel(run, id)),
      el("span", { class: "n" }, show(x)),
    );
  return el("div", {}, el("h4", {}, renderTerms(title)), el("ol", {}, pairs.map(item)));
}

/**
 * @param {Run} run
 * @param {Step} step
 */
export function createContrast(run, step) {
  const d = step.detail;
  /** @param {number} x */
  const signed = (x) => (x > 0 ? "+" : "") + formatFixed(x, 2);
  const after = tr("[contrast|After]: minus layer {layer}", { layer: d.premature_layer });
  return [
    el(
      "div",
      { class: "lh-pair" },
      createTokenList(run, step, tr("Before: the model's output"), d.final_top, formatPercent),
      createTokenList(run, step, after, d.contrast_top, signed),
    ),
    el(
      "p",
      { class: "dp-note" },
      maskText(d.kept, run.model.vocab_size),
      tr(
        " After: log-probability in the output minus that in layer {layer}, in nats, before other filters such as the repetition penalty.",
        { layer: d.premature_layer },
      ),
    ),
  ];
}

/**
 * @param {number} kept
 * @param {number} size
 */
function maskText(kept, size) {
  const total = formatCount(size);
  return kept === 1
    ? tr(
        "Mask: 1 of {total} token has at least a tenth of the top token's probability; all others are removed.",
        { total },
      )
    : tr(
        "Only tokens with at least 10 % of the top token's probability compete: {kept} of {total}.",
        { kept: formatCount(kept), total },
      );
}

/**
 * One cell of the map as a sentence.
 * @param {Run | null} run
 * @param {{ step: number, layer: number } | null} cell
 * @param {string} projection
 */
export function cellText(run, cell, projection) {
  const step = run?.steps[cell?.step ?? -1];
  const reading = step?.detail?.layers?.[cell?.layer ?? -1];
  if (!run || !cell || !step || !reading) return tr("Click a cell for its top tokens.");
  const layer = layerName(cell.layer, step.detail.layers.length);
  const numbers = Object.keys(VALUE_NAMES).map((name) =>
    VALUE_TEXT[name](formatValue(name, readValue(run, step, cell.layer, name, projection))),
  );
  const tops = topTokens(reading, projection).map(([id, p]) =>
    tr("“{token}” {share}", { token: tokenLabel(run, id), share: formatPercent(p) }),
  );
  return tr("Step {step}, layer {layer} {how}: {numbers}. Top tokens: {tops}.", {
    step: cell.step + 1,
    layer,
    how: PROJECTION_NAMES[projection],
    numbers: numbers.join(", "),
    tops: tops.join(", "),
  });
}

/**
 * @param {Run} run
 * @param {string} projection
 */
export function createLayerTable(run, projection) {
  const names = Object.keys(VALUE_NAMES);
  const rows = run.steps.filter(isLayerStep).flatMap((step) => {
    /** @type {LayerDetail} */
    const { layers } = step.detail;
    return layers.map((reading, i) => [
      step.index + 1,
      tokenLabel(run, step.emit[0]),
      reading.layer,
      layerRole(step.detail, reading.layer),
      ...names.map((name) => formatValue(name, readValue(run, step, i, name, projection))),
      topTokens(reading, projection)
        .map(([id]) => tokenLabel(run, id))
        .join("  "),
    ]);
  });
  return el(
    "div",
    {},
    el("p", { class: "dp-note" }, tr("Read {how}.", { how: PROJECTION_NAMES[projection] })),
    createTable(
      [
        tr("step"),
        tr("token"),
        tr("layer"),
        tr("role"),
        ...Object.values(VALUE_NAMES),
        tr("top tokens"),
      ],
      rows,
    ),
  );
}
