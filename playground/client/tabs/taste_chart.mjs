// The result of a taste test: one chart per measure with both texts of every pair, the preferred
// one filled.
import { createTable, el, svg } from "../../../visualizers/shared/dom.mjs";
import { renderTerms, term } from "../../../visualizers/shared/terms.mjs";
import { formatFixed, formatWholePercent } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { said } from "../forms/settings.mjs";
import { findStrategy } from "../shell/spec.mjs";
import {
  countLess,
  MEASURES,
  measureBoth,
  PAIRS_PER_ROUND,
  rankStrategies,
  signTest,
} from "./taste_votes.mjs";

/** @typedef {import("./taste_votes.mjs").Voted} Voted */
/** @typedef {import("./taste_votes.mjs").Written} Written */
/** @typedef {import("./taste_votes.mjs").Measure} Measure */

const WIDTH = 260;
const ROW_HEIGHT = 20;
const MARGIN = 12;
const AXIS_HEIGHT = 22;

/** @type {Record<Measure, () => Content>} */
const TITLES = {
  perplexity: () => term("perplexity"),
  rep_3: () => term("rep-n", tr("repeated 3-grams")),
  tokens: () => tr("length in tokens"),
};
/** @type {Record<Measure, (value: number) => string>} */
const FORMATTERS = {
  perplexity: formatFixed,
  rep_3: formatWholePercent,
  tokens: String,
};

/**
 * Return the strategy of a text with its parameters, in words.
 * @param {Written} written
 */
export function strategyLabel({ strategy, params }) {
  const given = Object.entries(params).map(([name, value]) => `${name} ${said(value)}`);
  const title = findStrategy(strategy)?.title ?? strategy;
  return given.length ? `${title} (${given.join(", ")})` : title;
}

/**
 * The x position of a value between the measure's smallest and largest value.
 * @param {number} value
 * @param {number} least
 * @param {number} most
 * @drawing
 */
const valueX = (value, least, most) =>
  MARGIN + ((WIDTH - 2 * MARGIN) * (value - least)) / (most - least || 1);

/**
 * The y position of the middle of a pair's row.
 * @param {number} row
 * @drawing
 */
const rowCenter = (row) => ROW_HEIGHT * (row + 0.5);

/**
 * Draw the chart of one measure.
 * @param {Voted[]} votes
 * @param {Measure} name
 */
function drawMeasure(votes, name) {
  const values = votes.flatMap(({ texts }) => texts.flatMap((written) => written[name] ?? []));
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const high = ROW_HEIGHT * votes.length + AXIS_HEIGHT;
  const rows = votes.map(({ vote, texts }, row) => {
    const measured = measureBoth(texts, name);
    if (!measured) return null;
    const y = rowCenter(row);
    const both = measured.map(FORMATTERS[name]);
    const [a, b] = measured.map((value) => valueX(value, least, most));
    const dots = [a, b].map((x, side) =>
      svg("circle", { class: side === vote ? "ts-preferred" : "ts-other", cx: x, cy: y, r: 5 }),
    );
    return svg(
      "g",
      { class: vote === null ? "ts-even" : "" },
      svg("path", { class: "ts-line", d: `M${a} ${y}H${b}` }),
      dots,
      svg("title", {}, tr("Pair {n}: {values}", { n: row + 1, values: both.join(", ") })),
    );
  });
  /** @type {[string, number, number][]} */
  const marks = [
    ["start", MARGIN, least],
    ["end", WIDTH - MARGIN, most],
  ];
  const ends = marks.map(([anchor, x, value]) =>
    svg(
      "text",
      { class: "ts-end", x, y: high - 6, "text-anchor": anchor },
      FORMATTERS[name](value),
    ),
  );
  return svg(
    "svg",
    {
      class: "ts-picture",
      viewBox: `0 0 ${WIDTH} ${high}`,
      role: "img",
      "aria-label": describeMeasure(votes, name),
    },
    rows,
    ends,
  );
}

/**
 * Return the chart as text for screen readers: every pair, its preferred text first.
 * @param {Voted[]} votes
 * @param {Measure} name
 */
function describeMeasure(votes, name) {
  const parts = votes.map(({ vote, texts }, row) => {
    const n = row + 1;
    const measured = measureBoth(texts, name);
    if (!measured) return tr("pair {n}: not measured", { n });
    const [a, b] = measured.map(FORMATTERS[name]);
    if (vote === null) return tr("pair {n}: {a} and {b}, no difference", { n, a, b });
    const [won, other] = vote ? [b, a] : [a, b];
    return tr("pair {n}: {won} preferred to {other}", { n, won, other });
  });
  return parts.join("; ");
}

/**
 * Create the figure of one measure: its chart, and what the votes say about it.
 * @param {Voted[]} votes
 * @param {{ name: Measure, less: string }} measure
 */
function createMeasureFigure(votes, { name, less: words }) {
  const { less, of } = countLess(votes, name);
  const proof = of
    ? tr(" [p-value] {p}: chance alone gives a result at least this lopsided that often.", {
        p: formatFixed(signTest(less, of)),
      })
    : tr(" No vote says anything about it.");
  const sentence = tr("Of {of} votes that differ in it, {less} went to the text with {words}.", {
    of,
    less,
    words,
  });
  return el(
    "figure",
    { class: "ts-measure" },
    el("figcaption", {}, el("b", {}, TITLES[name]())),
    drawMeasure(votes, name),
    el("p", { class: "dp-note" }, sentence, renderTerms(proof)),
  );
}

/**
 * Return the sentence above the charts: how many votes there are and how little they prove.
 * @param {Voted[]} votes
 */
function leadSentence(votes) {
  return tr(
    "You preferred one of the two in {decided} of {pairs} pairs. So few votes prove little: even if every one of {round} went the same way, chance would do that once in {rare} rounds, and 8 of {round} is nothing unusual (p-value {p}).",
    {
      decided: votes.filter(({ vote }) => vote !== null).length,
      pairs: votes.length,
      round: PAIRS_PER_ROUND,
      rare: Math.round(1 / signTest(PAIRS_PER_ROUND, PAIRS_PER_ROUND)),
      p: formatFixed(signTest(8, PAIRS_PER_ROUND)),
    },
  );
}

/**
 * Return the nodes of a round's result: sentence, charts and tables.
 * @param {Voted[]} votes
 */
export function createResult(votes) {
  const best = Math.max(...rankStrategies(votes, strategyLabel).map(({ won }) => won));
  const rows = rankStrategies(votes, strategyLabel).map(({ name, won, lost, even }) => [
    won === best && best ? `★ ${name}` : name,
    won,
    lost,
    even,
  ]);
  const pairs = votes.map(({ vote, texts: [left, right] }, i) => [
    i + 1,
    `${vote === 0 ? "✓ " : ""}${strategyLabel(left)}`,
    `${vote === 1 ? "✓ " : ""}${strategyLabel(right)}`,
  ]);
  return [
    el("p", { class: "ts-lead" }, leadSentence(votes)),
    el(
      "p",
      { class: "dp-note" },
      tr(
        "Filled: the text you preferred; hollow: the other one. A pair without a difference is grey.",
      ),
    ),
    el(
      "div",
      { class: "ts-measures" },
      MEASURES.map((measure) => createMeasureFigure(votes, measure)),
    ),
    el("h3", {}, tr("What each strategy came to")),
    createTable([tr("strategy"), tr("preferred"), tr("passed over"), tr("no difference")], rows),
    el("h3", {}, tr("The ten pairs revealed")),
    createTable([tr("pair"), tr("Left").toLowerCase(), tr("Right").toLowerCase()], pairs),
  ];
}
