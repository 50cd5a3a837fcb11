// Details of one step: the reading of every layer, and the effect of the contrast on the output.
import { el, header, scroller, table } from "../shared/dom.mjs";
import { told } from "../shared/terms.mjs";
import { fixed, grouped, percent, piece } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import {
  drawn,
  isLayered,
  keyOf,
  layerName,
  PROJECTIONS,
  readingOf,
  roleOf,
  SAID,
  VALUES,
  written,
} from "./values.mjs";

// Widths of the bars in percent of the range from the least
// to the greatest value, which includes 0.
function widths(numbers) {
  const finite = numbers.filter((x) => x !== null);
  const low = Math.min(...finite, 0);
  const high = Math.max(...finite, 0);
  return numbers.map((x) => (x === null || high === low ? 0 : (100 * (x - low)) / (high - low)));
}

const bar = (width) =>
  el(
    "span",
    { class: "lh-bar", "aria-hidden": "true" },
    el("i", { style: { width: `${width}%` } }),
  );

/**
 * @param {Run} run
 * @param {Step} step
 */
function rowsOf(run, step, value, projection) {
  const { layers, premature_layer: contrasted } = step.detail;
  const numbers = layers.map((_, i) => readingOf(run, step, i, value, projection));
  const wide = widths(numbers.map((x) => drawn(value, x)));
  const top = ([id, p]) =>
    el(
      "span",
      { class: id === step.emit[0] ? "hit" : null },
      piece(run, id),
      el("small", {}, percent(p)),
    );
  const rows = layers.map((reading, i) =>
    el(
      "tr",
      { class: i === contrasted ? "on" : null },
      el("th", { scope: "row" }, layerName(i, layers.length)),
      el("td", { class: "role" }, roleOf(step.detail, i)),
      el("td", { class: "val" }, bar(wide[i]), el("span", {}, written(value, numbers[i]))),
      el("td", { class: "tops" }, reading[keyOf("top", projection)].map(top)),
    ),
  );
  return rows.reverse();
}

/**
 * @param {Run} run
 * @param {Step} step
 */
export function columnOf(run, step, value, projection) {
  const head = [tr("layer"), tr("role"), VALUES[value], tr("top tokens (the emitted one framed)")];
  const title = tr("Step {step}: “{token}” layer by layer, {how}", {
    step: step.index + 1,
    token: piece(run, step.emit[0]),
    how: PROJECTIONS[projection],
  });
  const body = el("tbody", {}, rowsOf(run, step, value, projection));
  const whole = el("table", { class: "dp-table lh-table" }, header(head), body);
  return [el("h4", {}, title), scroller(tr("The selected step's layers"), whole)];
}

/**
 * @param {Run} run
 * @param {Step} step
 */
function list(run, step, title, pairs, show) {
  const item = ([id, x]) =>
    el(
      "li",
      { class: id === step.emit[0] ? "on" : null },
      el("span", { class: "t" }, piece(run, id)),
      el("span", { class: "n" }, show(x)),
    );
  return el("div", {}, el("h4", {}, told(title)), el("ol", {}, pairs.map(item)));
}

/**
 * @param {Run} run
 * @param {Step} step
 */
export function contrastOf(run, step) {
  const d = step.detail;
  const signed = (x) => (x > 0 ? "+" : "") + fixed(x, 2);
  const after = tr("[contrast|After]: minus layer {layer}", { layer: d.premature_layer });
  return [
    el(
      "div",
      { class: "lh-pair" },
      list(run, step, tr("Before: the model's output"), d.final_top, percent),
      list(run, step, after, d.contrast_top, signed),
    ),
    el(
      "p",
      { class: "dp-note" },
      maskWords(d.kept, run.model.vocab_size),
      tr(
        " After: log-probability in the output minus that in layer {layer}, in nats, before other processors such as the repetition penalty.",
        { layer: d.premature_layer },
      ),
    ),
  ];
}

function maskWords(kept, size) {
  const total = grouped(size);
  return kept === 1
    ? tr(
        "Mask: 1 of {total} token has at least a tenth of the top token's probability; all others are removed.",
        { total },
      )
    : tr(
        "Mask: {kept} of {total} tokens have at least a tenth of the top token's probability; all others are removed.",
        { kept: grouped(kept), total },
      );
}

/**
 * One cell of the map as a sentence.
 * @param {Run} run
 */
export function cellOf(run, cell, projection) {
  const step = cell && run?.steps[cell.step];
  const reading = step?.detail?.layers?.[cell.layer];
  if (!reading) return tr("Click a cell for its top tokens.");
  const layer = layerName(cell.layer, step.detail.layers.length);
  const numbers = Object.keys(VALUES).map((name) =>
    SAID[name](written(name, readingOf(run, step, cell.layer, name, projection))),
  );
  const tops = reading[keyOf("top", projection)].map(([id, p]) =>
    tr("“{token}” {share}", { token: piece(run, id), share: percent(p) }),
  );
  return tr("Step {step}, layer {layer} {how}: {numbers}. Top tokens: {tops}.", {
    step: cell.step + 1,
    layer,
    how: PROJECTIONS[projection],
    numbers: numbers.join(", "),
    tops: tops.join(", "),
  });
}

/** @param {Run} run */
export function tableOf(run, projection) {
  const names = Object.keys(VALUES);
  const rows = run.steps
    .filter(isLayered)
    .flatMap((step) =>
      step.detail.layers.map((reading, i) => [
        step.index + 1,
        piece(run, step.emit[0]),
        reading.layer,
        roleOf(step.detail, reading.layer),
        ...names.map((name) => written(name, readingOf(run, step, i, name, projection))),
        reading[keyOf("top", projection)].map(([id]) => piece(run, id)).join("  "),
      ]),
    );
  return el(
    "div",
    {},
    el("p", { class: "dp-note" }, tr("Read {how}.", { how: PROJECTIONS[projection] })),
    table(
      [
        tr("step"),
        tr("token"),
        tr("layer"),
        tr("role"),
        ...Object.values(VALUES),
        tr("top tokens"),
      ],
      rows,
    ),
  );
}
