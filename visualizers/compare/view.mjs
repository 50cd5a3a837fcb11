// View of a comparison: table of measures, further figures, token differences and curves.
import { readColours } from "../shared/colours.mjs";
import { createScroller, createTableHead, el } from "../shared/dom.mjs";
import { loadPlotly } from "../shared/plotly.mjs";
import { said } from "../shared/server_text.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { formatNumber, makeVisible } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { createMeasureTable } from "./measures.mjs";

/**
 * The server's figures of a comparison.
 * @typedef {object} CompareFigures
 * @property {string} base the model that read every text
 * @property {string} base_held how it is stored
 * @property {string[]} columns
 * @property {string[]} further those columns that no bar shows
 * @property {import("./measures.mjs").MeasureRow[]} measures
 * @property {import("./verdict.mjs").Verdict} verdict
 * @property {SeedFigures[]} seeds
 */

/**
 * The figures of the texts of one seed.
 * @typedef {object} SeedFigures
 * @property {string} seed
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
  eos: tr("finished by itself"),
  length: tr("reached the token limit"),
  stop: tr("reached a stop text"),
  cancelled: tr("stopped"),
  error: tr("failed"),
};

/** @param {number | string | null} value */
function formatFigure(value) {
  if (typeof value !== "number") return ENDING_TEXT[value ?? ""] ?? said(value) ?? "–";
  return formatNumber(value);
}

/**
 * Runs are the columns, because four columns fit a phone and more figures would not.
 * @param {CompareFigures} figures
 * @param {SeedFigures} own
 */
function createFigureTable({ columns, further: named }, { rows }) {
  const further = named.map((name) => ({ name, place: columns.indexOf(name) }));
  const head = rows.map((row) => `${row[0]} · ${row[1]}`);
  return createScroller(
    tr("Further figures of every text"),
    el(
      "table",
      { class: "dp-table cmp-figures" },
      createTableHead(["", ...head]),
      el(
        "tbody",
        {},
        further.map(({ name, place }) =>
          el(
            "tr",
            {},
            el("th", { scope: "row" }, said(name)),
            rows.map((row) => el("td", { class: "num" }, formatFigure(row[place]))),
          ),
        ),
      ),
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
const createSection = (title, ...inside) =>
  el("section", { "aria-label": title }, el("h3", {}, title), inside);

/** @param {CompareFigures} figures */
const createAbout = ({ base, base_held: held }) =>
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
  createSection(
    tr("Token differences"),
    el(
      "div",
      { class: "dp-legend" },
      el("del", {}, tr("only in the first")),
      el("ins", {}, tr("only in the other")),
    ),
    ...diff.map(createDifference),
  );

/** @param {CompareFigures} figures */
const createMeasures = ({ measures, seeds }) =>
  createMeasureTable(
    measures,
    (seeds[0]?.rows ?? []).map(([label]) => String(label)),
    seeds.length > 1,
  );

/**
 * The measures of a comparison, and what folds away under them for one seed: further figures,
 * differences and curves.
 * @param {HTMLElement} root
 * @param {HTMLElement} more
 */
export function createCompareFigures(root, more) {
  /** @type {CompareFigures | null} */
  let shown = null;
  let place = 0;
  const folded = more.closest("details");
  const drawMore = () => {
    const own = shown?.seeds[place];
    if (!shown || !own || folded?.open === false) return;
    const { base } = shown;
    const plot = el("div", {
      class: "dp-plot cmp-plot",
      role: "img",
      "aria-label": tr(
        "Surprise and entropy of every text for the judge, in bits, over the new tokens",
      ),
    });
    more.replaceChildren(
      createSection(tr("Further figures"), createFigureTable(shown, own), createAbout(shown)),
      own.diff.length ? createDifferences(own.diff) : "",
      own.curves.length ? createSection(tr("Surprise and entropy for {base}", { base }), plot) : "",
    );
    if (own.curves.length) drawPlot(plot, own.curves);
  };
  folded?.addEventListener("toggle", drawMore);
  return {
    clear() {
      shown = null;
      root.replaceChildren();
      more.replaceChildren();
    },
    /** @param {CompareFigures} figures */
    show(figures) {
      shown = figures;
      root.replaceChildren(createMeasures(figures));
      drawMore();
    },
    /** @param {number} at place of the seed whose figures fold away */
    showSeed(at) {
      place = at;
      drawMore();
    },
  };
}
