// View of a comparison: table of figures, token differences and curves.
import { readColours } from "../shared/colours.mjs";
import { createScroller, el } from "../shared/dom.mjs";
import { loadPlotly } from "../shared/plotly.mjs";
import { said } from "../shared/server_text.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { formatFixed, makeVisible } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/**
 * The server's figures of a comparison.
 * @typedef {object} CompareFigures
 * @property {string} base the model that read every text
 * @property {string} base_held how it is stored
 * @property {string[]} columns
 * @property {(string | number | null)[][]} rows
 * @property {CompareCurve[]} curves
 * @property {TokenDifference[]} diff
 */

/** @typedef {{ name: string, label: string, pieces: string[], surprise: number[], entropy: number[] }} CompareCurve */

/**
 * The difference of two texts. A part is its kind and the pieces of each side.
 * @typedef {{ a: string, b: string, parts: [string, string[], string[]][] }} TokenDifference
 */

/** @type {Record<string, string>} */
const ENDING_TEXT = {
  eos: tr("eos"),
  length: tr("length"),
  stop: tr("stop"),
  cancelled: tr("cancelled"),
  error: tr("error"),
};

/** @param {number | string | null} value */
function formatFigure(value) {
  if (typeof value !== "number") return ENDING_TEXT[value ?? ""] ?? said(value) ?? "–";
  if (Number.isInteger(value)) return String(value);
  return Math.abs(value) >= 1000 ? value.toPrecision(4) : formatFixed(value);
}

/**
 * Runs are the columns, because four columns fit a phone and fourteen figures would not.
 * @param {CompareFigures} message
 */
function createFigureTable({ columns, rows }) {
  const head = rows.map((row) => `${row[0]} · ${row[1]}`);
  /**
   * @param {string} text
   * @param {number} i
   */
  const scope = (text, i) => el("th", { scope: "col", class: i ? "num" : null }, text);
  /**
   * @param {string} name
   * @param {number} i
   */
  const line = (name, i) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, said(name)),
      rows.map((row) => el("td", { class: "num" }, formatFigure(row[i + 2]))),
    );
  return createScroller(
    tr("Figures of every run"),
    el(
      "table",
      { class: "dp-table cmp-table" },
      el("thead", {}, el("tr", {}, ["", ...head].map(scope))),
      el("tbody", {}, columns.slice(2).map(line)),
    ),
  );
}

/** @param {TokenDifference} difference */
function createDifference({ a, b, parts }) {
  /** @param {string[]} list */
  const words = (list) => makeVisible(list.join(""));
  const part = (/** @type {[string, string[], string[]]} */ [kind, left, right]) => {
    if (kind === "equal") return [el("span", {}, words(left))];
    return [
      left.length ? el("del", {}, words(left)) : null,
      right.length ? el("ins", {}, words(right)) : null,
    ];
  };
  return el(
    "div",
    {},
    el("h4", {}, tr("{a} against {b}", { a, b })),
    el("p", { class: "cmp-diff" }, parts.flatMap(part)),
  );
}

const LINE_DASHES = ["solid", "dash", "dot", "dashdot"];

/**
 * Surprise (upper plot) and entropy (lower plot) of a run share their colour and legend entry.
 * @param {CompareCurve} curve
 * @param {number} i
 * @param {Record<string, string>} shades
 */
function createCurves({ name, label, pieces, surprise, entropy }, i, shades) {
  const colour = [shades.accent, shades.bad, shades.good, shades.violet][i % 4];
  const common = {
    type: "scatter",
    mode: "lines",
    x: surprise.map((_, place) => place + 1),
    line: { color: colour, dash: LINE_DASHES[i % 4], width: 2 },
    legendgroup: label,
    name,
  };
  const value = `%{y:.2f} ${tr("bits")}<extra></extra>`;
  return [
    { ...common, y: surprise, text: pieces, hovertemplate: `${label} %{text} ${value}` },
    {
      ...common,
      y: entropy,
      showlegend: false,
      yaxis: "y2",
      hovertemplate: `${label} ${value}`,
    },
  ];
}

/** @param {Record<string, string>} shades */
function createLayout(shades) {
  const axis = { gridcolor: shades.line, zeroline: false };
  return {
    margin: { l: 48, r: 8, t: 8, b: 40 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: shades.text, size: 12 },
    showlegend: true,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    hovermode: "x",
    hoverlabel: { bgcolor: shades.bg, font: { color: shades.text } },
    xaxis: { title: { text: tr("new token") }, anchor: "y2", ...axis },
    yaxis: {
      title: { text: tr("surprise, bits") },
      domain: [0.54, 1],
      rangemode: "tozero",
      ...axis,
    },
    yaxis2: {
      title: { text: tr("entropy, bits") },
      domain: [0, 0.46],
      rangemode: "tozero",
      ...axis,
    },
  };
}

/**
 * @param {HTMLElement} plot
 * @param {CompareCurve[]} curves
 */
async function drawPlot(plot, curves) {
  const Plotly = await loadPlotly();
  const shades = readColours();
  const data = curves.flatMap((curve, i) => createCurves(curve, i, shades));
  const config = { displayModeBar: false, responsive: true };
  await Plotly.react(plot, data, createLayout(shades), config);
}

/**
 * @param {string} title
 * @param {...Content} inside
 */
const createCard = (title, ...inside) =>
  el("section", { class: "dp-card", "aria-label": title }, el("h3", {}, title), inside);

/**
 * @param {string} base
 * @param {string} held
 */
const createAbout = (base, held) =>
  el(
    "p",
    { class: "dp-note" },
    renderTerms(
      tr(
        "[log-probability] per token and [perplexity] come from {base} ({held}), which reads every text token by token (teacher-forced). [rep-n] is the share of [n-gram|n-grams] that repeat an earlier one, distinct-n the share of different ones. Seconds count decoding without waiting. A more probable text is not always a better one.",
        { base, held: said(held) },
      ),
    ),
  );

/** @param {TokenDifference[]} diff */
const createDifferences = (diff) =>
  createCard(
    tr("Token differences"),
    el(
      "div",
      { class: "dp-legend" },
      el("del", {}, tr("only in the first")),
      el("ins", {}, tr("only in the other")),
    ),
    ...diff.map(createDifference),
  );

/** @param {HTMLElement} root */
export const createCompareFigures = (root) => ({
  clear: () => root.replaceChildren(),
  /** @param {CompareFigures} message */
  show(message) {
    const { base, base_held: held, diff, curves } = message;
    const plot = el("div", {
      class: "dp-plot cmp-plot",
      role: "img",
      "aria-label": tr(
        "Surprise and entropy of every text under the base model, in bits, over the new tokens",
      ),
    });
    root.replaceChildren(
      createCard(tr("In numbers"), createFigureTable(message), createAbout(base, held)),
      diff.length ? createDifferences(diff) : "",
      curves.length ? createCard(tr("Surprise and entropy under {base}", { base }), plot) : "",
    );
    if (curves.length) drawPlot(plot, curves);
  },
});
