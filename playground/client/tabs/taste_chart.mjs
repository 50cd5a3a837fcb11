// The result of a taste test: one chart per measure with both texts of every pair, the preferred
// one filled.
import { el, svg, table } from "../../../visualizers/shared/dom.mjs";
import { term, told } from "../../../visualizers/shared/terms.mjs";
import { fixed, percent } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { said } from "../forms/settings.mjs";
import { strategyOf } from "../shell/spec.mjs";
import { lessOf, MEASURES, ROUND, signTest, standings } from "./taste_votes.mjs";

/** @typedef {import("./taste_votes.mjs").Voted} Voted */
/** @typedef {import("./taste_votes.mjs").Written} Written */

const WIDE = 260;
const ROW = 20;
const EDGE = 12;
const AXIS = 22;

const TITLES = {
  perplexity: () => term("perplexity"),
  rep_3: () => term("rep-n", tr("repeated 3-grams")),
  tokens: () => tr("length in tokens"),
};
const IN_WORDS = {
  perplexity: (value) => fixed(value, 2),
  rep_3: percent,
  tokens: String,
};

/**
 * Return the strategy of a text with its parameters, in words.
 * @param {Written} written
 */
export function nameOf({ strategy, params }) {
  const given = Object.entries(params).map(([name, value]) => `${name} ${said(value)}`);
  const title = strategyOf(strategy)?.title ?? strategy;
  return given.length ? `${title} (${given.join(", ")})` : title;
}

const known = (texts, name) => texts.every((written) => written[name] !== null);

/** @drawing The x position of a value between the measure's smallest and largest value. */
const placeOf = (value, least, most) =>
  EDGE + ((WIDE - 2 * EDGE) * (value - least)) / (most - least || 1);

/** @drawing The y position of the middle of a pair's row. */
const heightOf = (row) => ROW * (row + 0.5);

/**
 * Draw the chart of one measure.
 * @param {Voted[]} votes
 * @param {string} name of the measure
 */
function picture(votes, name) {
  const values = votes.flatMap(({ texts }) => texts.map((w) => w[name]).filter((v) => v !== null));
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const high = ROW * votes.length + AXIS;
  const rows = votes.map(({ vote, texts }, row) => {
    if (!known(texts, name)) return null;
    const y = heightOf(row);
    const both = texts.map((written) => IN_WORDS[name](written[name]));
    const [a, b] = texts.map((written) => placeOf(written[name], least, most));
    const dots = [a, b].map((x, side) =>
      svg("circle", { class: side === vote ? "ts-won" : "ts-other", cx: x, cy: y, r: 5 }),
    );
    return svg(
      "g",
      { class: vote === null ? "ts-even" : "" },
      svg("path", { class: "ts-line", d: `M${a} ${y}H${b}` }),
      dots,
      svg("title", {}, tr("Pair {n}: {values}", { n: row + 1, values: both.join(", ") })),
    );
  });
  const ends = [
    ["start", EDGE, least],
    ["end", WIDE - EDGE, most],
  ].map(([anchor, x, value]) =>
    svg("text", { class: "ts-end", x, y: high - 6, "text-anchor": anchor }, IN_WORDS[name](value)),
  );
  return svg(
    "svg",
    {
      class: "ts-picture",
      viewBox: `0 0 ${WIDE} ${high}`,
      role: "img",
      "aria-label": labelOf(votes, name),
    },
    rows,
    ends,
  );
}

// The chart as text for screen readers: every pair, its preferred text first.
function labelOf(votes, name) {
  const parts = votes.map(({ vote, texts }, row) => {
    const n = row + 1;
    if (!known(texts, name)) return tr("pair {n}: not measured", { n });
    const [a, b] = texts.map((written) => IN_WORDS[name](written[name]));
    if (vote === null) return tr("pair {n}: {a} and {b}, no difference", { n, a, b });
    const [won, other] = vote ? [b, a] : [a, b];
    return tr("pair {n}: {won} preferred to {other}", { n, won, other });
  });
  return parts.join("; ");
}

/**
 * Create the figure of one measure: its chart, and what the votes say about it.
 * @param {Voted[]} votes
 */
function measured(votes, { name, less: words }) {
  const { less, of } = lessOf(votes, name);
  const proof = of
    ? tr(" [p-value] {p}, as chance alone gives a count at least as uneven that often.", {
        p: fixed(signTest(less, of), 3),
      })
    : tr(" No vote tells anything about it.");
  const sentence = tr("Of {of} votes that differ in it, {less} went to the text with {words}.", {
    of,
    less,
    words,
  });
  return el(
    "figure",
    { class: "ts-measure" },
    el("figcaption", {}, el("b", {}, TITLES[name]())),
    picture(votes, name),
    el("p", { class: "dp-note" }, sentence, told(proof)),
  );
}

// The sentence above the charts: how many votes there are and how little they prove.
function leadOf(votes) {
  return tr(
    "You preferred one of the two in {decided} of {pairs} pairs. So few votes prove little: even if every one of {round} went the same way, chance would do that once in {rare} rounds, and 8 of {round} is nothing unusual (p-value {p}).",
    {
      decided: votes.filter(({ vote }) => vote !== null).length,
      pairs: votes.length,
      round: ROUND,
      rare: Math.round(1 / signTest(ROUND, ROUND)),
      p: fixed(signTest(8, ROUND), 3),
    },
  );
}

/**
 * Return the nodes of a round's result: sentence, charts and tables.
 * @param {Voted[]} votes
 */
export function resultOf(votes) {
  const best = Math.max(...standings(votes, nameOf).map(({ won }) => won));
  const rows = standings(votes, nameOf).map(({ name, won, lost, even }) => [
    won === best && best ? `★ ${name}` : name,
    won,
    lost,
    even,
  ]);
  const pairs = votes.map(({ vote, texts: [left, right] }, i) => [
    i + 1,
    `${vote === 0 ? "✓ " : ""}${nameOf(left)}`,
    `${vote === 1 ? "✓ " : ""}${nameOf(right)}`,
  ]);
  return [
    el("p", { class: "ts-lead" }, leadOf(votes)),
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
      MEASURES.map((measure) => measured(votes, measure)),
    ),
    el("h3", {}, tr("What each strategy came to")),
    table([tr("strategy"), tr("preferred"), tr("passed over"), tr("no difference")], rows),
    el("h3", {}, tr("What stood on either side")),
    table([tr("pair"), tr("Left").toLowerCase(), tr("Right").toLowerCase()], pairs),
  ];
}
