// What a round of votes came to: for each measure both texts of every pair, the preferred one filled.
import { el, svg, table } from "../../visualizers/shared/dom.mjs";
import { term, told } from "../../visualizers/shared/terms.mjs";
import { fixed, percent } from "../../visualizers/shared/text.mjs";
import { said } from "./settings.mjs";
import { strategyOf } from "./spec.mjs";
import { lessOf, MEASURES, ROUND, signTest, standings } from "./taste_votes.mjs";

/** @typedef {import("./taste_votes.mjs").Voted} Voted */
/** @typedef {import("./taste_votes.mjs").Written} Written */

const WIDE = 260;
const ROW = 20;
const EDGE = 12;
const AXIS = 22;

const TITLES = {
  perplexity: () => term("perplexity"),
  rep_3: () => term("rep-n", "repeated 3-grams"),
  tokens: () => "length in tokens",
};
const IN_WORDS = {
  perplexity: (value) => fixed(value, 2),
  rep_3: percent,
  tokens: String,
};

/** @param {Written} written */
export function nameOf({ strategy, params }) {
  const given = Object.entries(params).map(([name, value]) => `${name} ${said(value)}`);
  const title = strategyOf(strategy)?.title ?? strategy;
  return given.length ? `${title} (${given.join(", ")})` : title;
}

const known = (texts, name) => texts.every((written) => written[name] !== null);

/** @drawing Where a value stands between the least and the most of its measure. */
const placeOf = (value, least, most) =>
  EDGE + ((WIDE - 2 * EDGE) * (value - least)) / (most - least || 1);

/** @drawing The middle of a pair's row. */
const heightOf = (row) => ROW * (row + 0.5);

/**
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
    const [a, b] = texts.map((written) => placeOf(written[name], least, most));
    const dots = [a, b].map((x, side) =>
      svg("circle", { class: side === vote ? "ts-won" : "ts-other", cx: x, cy: y, r: 5 }),
    );
    return svg(
      "g",
      { class: vote === null ? "ts-even" : "" },
      svg("path", { class: "ts-line", d: `M${a} ${y}H${b}` }),
      dots,
      svg("title", {}, `Pair ${row + 1}: ${texts.map((w) => IN_WORDS[name](w[name])).join(", ")}`),
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

// The picture in words: every pair, its preferred text first.
function labelOf(votes, name) {
  const parts = votes.map(({ vote, texts }, row) => {
    if (!known(texts, name)) return `pair ${row + 1}: not measured`;
    const [a, b] = texts.map((written) => IN_WORDS[name](written[name]));
    if (vote === null) return `pair ${row + 1}: ${a} and ${b}, no difference`;
    return `pair ${row + 1}: ${vote ? b : a} preferred to ${vote ? a : b}`;
  });
  return parts.join("; ");
}

/**
 * One measure: its picture, and how little its count proves.
 * @param {Voted[]} votes
 */
function measured(votes, { name, less: words }) {
  const { less, of } = lessOf(votes, name);
  const proof = of
    ? ` [p-value] ${fixed(signTest(less, of), 3)}, as chance alone gives a count at least as uneven that often.`
    : " No vote tells anything about it.";
  const sentence = `Of ${of} votes that differ in it, ${less} went to the text with ${words}.`;
  return el(
    "figure",
    { class: "ts-measure" },
    el("figcaption", {}, el("b", {}, TITLES[name]())),
    picture(votes, name),
    el("p", { class: "dp-note" }, sentence, told(proof)),
  );
}

/**
 * What a round came to.
 * @param {Voted[]} votes
 */
export function resultOf(votes) {
  const decided = votes.filter(({ vote }) => vote !== null).length;
  const best = Math.max(...standings(votes, nameOf).map(({ won }) => won));
  const lead = `You preferred one of the two in ${decided} of ${votes.length} pairs. So few votes prove little: even if every one of ${ROUND} went the same way, chance would do that once in ${Math.round(1 / signTest(ROUND, ROUND))} rounds, and 8 of ${ROUND} is nothing unusual (p-value ${fixed(signTest(8, ROUND), 3)}).`;
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
    el("p", { class: "ts-lead" }, lead),
    el(
      "p",
      { class: "dp-note" },
      "Filled: the text you preferred; hollow: the other one. A pair without a difference is grey.",
    ),
    el(
      "div",
      { class: "ts-measures" },
      MEASURES.map((measure) => measured(votes, measure)),
    ),
    el("h3", {}, "What each strategy came to"),
    table(["strategy", "preferred", "passed over", "no difference"], rows),
    el("h3", {}, "What stood on either side"),
    table(["pair", "left", "right"], pairs),
  ];
}
