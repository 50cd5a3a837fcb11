// The answers of a class: a table with a bar per answer, next to the model's probabilities.
import { createScroller, el } from "../../../visualizers/shared/dom.mjs";
import {
  formatNumber,
  formatWholePercent,
  makeVisible,
  toCssLength,
} from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { isRight, optionLabels, unitSuffix } from "../lessons/bets.mjs";

/** @import { Bet, Key } from "../lessons/bets.mjs" */

/**
 * One possible answer.
 * @typedef {object} Bar
 * @property {string} text
 * @property {number} votes
 * @property {number} [p] the model's own probability
 * @property {boolean} [right] whether it is correct; undefined before the reveal
 */

/**
 * The server's counts of the bets on a card.
 * @typedef {object} Tally
 * @property {number} votes
 * @property {number[]} counts of the options
 * @property {[number, number, number][]} bins low, high and votes of numbers
 * @property {[number[], number][]} orders
 * @property {number} others votes for other orders
 * @property {number | null} median
 * @property {number | null} right how many were right
 * @property {number | null} perplexity
 */

/** @type {Record<string, (bet: Bet, tally: Tally, key?: Key | null) => Bar[]>} */
const BAR_KINDS = {
  token: optionBars,
  truth: optionBars,
  choice: optionBars,
  number: binBars,
  order: orderBars,
};

/**
 * Create the histogram of the bets on a card, with its sentences.
 * @param {Bet} bet of the card
 * @param {Tally} tally
 * @param {Key | null} [key] the bet's solution, once it may be shown
 */
export function createHistogram(bet, tally, key) {
  const bars = BAR_KINDS[bet.kind]?.(bet, tally, key) ?? [];
  return el(
    "div",
    { class: "rm-histogram" },
    bars.length ? createBarTable(bars, tally.votes) : null,
    summarySentences(bet, tally, key).map((text) => el("p", {}, text)),
  );
}

/**
 * @param {Bet} bet
 * @param {Tally} tally
 * @param {Key | null} [key]
 * @returns {Bar[]}
 */
function optionBars(bet, { counts }, key) {
  return optionLabels(bet).map((text, place) => ({
    text,
    votes: counts[place],
    p: key?.probabilities[place],
    right: key?.right.includes(place),
  }));
}

/**
 * @param {Bet} bet
 * @param {Tally} tally
 * @param {Key | null} [key]
 * @returns {Bar[]}
 */
function binBars(bet, tally, key) {
  const right = key?.value ?? null;
  return tally.bins.map(([low, high, votes], place) => {
    const last = place === tally.bins.length - 1;
    const inside = (/** @type {number} */ x) => x >= low && (x < high || (last && x <= high));
    const middle = (/** @type {number} */ x) => low === high && Math.abs(x - low) <= bet.by / 2;
    const ends = low === high ? formatNumber(low) : `${formatNumber(low)}–${formatNumber(high)}`;
    const fits = right === null ? undefined : inside(right) || middle(right);
    return { text: `${ends}${unitSuffix(bet)}`, votes, right: fits };
  });
}

/**
 * @param {Bet} bet
 * @param {Tally} tally
 * @param {Key | null} [key]
 * @returns {Bar[]}
 */
function orderBars(bet, { orders: found, others }, key) {
  const options = optionLabels(bet);
  const rows = found.map(([order, votes]) => ({
    text: order.map((place) => makeVisible(options[place])).join(" › "),
    votes,
    right: key ? (isRight(bet, key, order) ?? undefined) : undefined,
  }));
  return others ? [...rows, { text: tr("other orders"), votes: others }] : rows;
}

/**
 * @param {Bar[]} bars
 * @param {number} votes of the class
 */
function createBarTable(bars, votes) {
  const model = bars.some((bar) => bar.p !== undefined);
  const heads = [tr("Answer"), tr("The class"), ...(model ? [tr("The model")] : [])];
  const rows = bars.map((bar) =>
    el(
      "tr",
      { class: bar.right ? "right" : null },
      el(
        "th",
        { scope: "row" },
        bar.text,
        bar.right ? el("span", { class: "rm-right" }, tr("✓ right")) : null,
      ),
      createCell(voteShare(bar.votes, votes), voteCountText(bar.votes, votes), "class"),
      model ? createCell(bar.p ?? 0, formatWholePercent(bar.p ?? 0), "model") : null,
    ),
  );
  const head = el(
    "tr",
    {},
    heads.map((text) => el("th", { scope: "col" }, text)),
  );
  const table = el(
    "table",
    { class: model ? "rm-table" : "rm-table alone" },
    el("thead", {}, head),
    el("tbody", {}, rows),
  );
  return createScroller(tr("What the class bet"), table);
}

/**
 * The number of votes and their share in whole percent; a class is too small for decimals.
 * @param {number} votes
 * @param {number} all
 * @drawing
 */
const voteCountText = (votes, all) =>
  votes ? `${votes} · ${Math.round((100 * votes) / all)} %` : "0";

/**
 * The share of all votes, on the same scale as the model's probabilities.
 * @param {number} votes
 * @param {number} all
 * @drawing
 */
const voteShare = (votes, all) => votes / (all || 1);

/**
 * @param {number} share
 * @param {string} text
 * @param {string} kind
 */
const createCell = (share, text, kind) => {
  const bar = el("i", { style: { width: toCssLength(share) } });
  return el(
    "td",
    {},
    el(
      "div",
      { class: "rm-cell" },
      el("span", { class: "rm-number" }, text),
      el("span", { class: `rm-track ${kind}`, "aria-hidden": "true" }, bar),
    ),
  );
};

/**
 * @param {Bet} bet
 * @param {Tally} tally
 * @param {Key | null} [key]
 */
function summarySentences(bet, tally, key) {
  const found = [];
  if (bet.kind === "number" && tally.median !== null)
    found.push(
      tr("Half of the class bet on {median} or less.", {
        median: `${formatNumber(tally.median)}${unitSuffix(bet)}`,
      }),
    );
  if (key && tally.right !== null && tally.votes)
    found.push(
      tr("{right} of {votes} bets were right.", { right: tally.right, votes: tally.votes }),
    );
  if (key && tally.perplexity !== null)
    found.push(
      tr(
        "The crowd’s perplexity is {n}: to the tokens that it bet on the model gave, in the geometric mean, one in {n}.",
        {
          n: formatNumber(tally.perplexity),
        },
      ),
    );
  return found;
}
