// The logic of the blind taste test: drawing pairs, choosing sides and counting votes. No DOM.

import { tr } from "../../../visualizers/shared/tr.mjs";

/**
 * A text with the strategy that wrote it and its measures.
 * @typedef {{ strategy: string, params: Record<string, any>, text: string, perplexity: number | null,
 *   rep_3: number, tokens: number }} Written
 */

/** @typedef {{ prompt: string, texts: [Written, Written] }} Pair the left text, then the right one */

/** @typedef {Pair & { vote: Side | null }} Voted null: no difference */

/** @typedef {0 | 1} Side */

/** @typedef {"perplexity" | "rep_3" | "tokens"} Measure */

/** @type {{ name: Measure, less: string }[]} the measures of a text, with the words for the lower end */
export const MEASURES = [
  { name: "perplexity", less: tr("the lower perplexity") },
  { name: "rep_3", less: tr("fewer repeated 3-grams") },
  { name: "tokens", less: tr("fewer tokens") },
];

export const PAIRS_PER_ROUND = 10;

/**
 * Return a shuffled copy of a list (Fisher-Yates).
 * @template T
 * @param {T[]} list
 * @param {() => number} random returns a number in [0, 1)
 */
export function shuffleList(list, random) {
  const made = [...list];
  for (let i = made.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [made[i], made[j]] = [made[j], made[i]];
  }
  return made;
}

/**
 * Return a pair with its two texts on random sides.
 * @template {{ texts: [any, any] }} T
 * @param {T} pair
 * @param {() => number} random
 * @returns {T}
 */
export function shuffleSides(pair, random) {
  const [a, b] = pair.texts;
  return { ...pair, texts: random() < 0.5 ? [a, b] : [b, a] };
}

/**
 * Draw the pairs of a round from recorded texts. Each pair has its own prompt, and every pair of
 * strategies comes about equally often.
 * @param {{ prompt: string, texts: Written[] }[]} prompts
 * @param {() => number} random
 * @returns {Pair[]}
 */
export function drawPairs(prompts, random) {
  const ways = prompts[0].texts.length;
  const both = [];
  for (let a = 0; a < ways; a++) for (let b = a + 1; b < ways; b++) both.push([a, b]);
  const order = shuffleList(both, random);
  const found = [];
  for (const { prompt, texts } of shuffleList(prompts, random)) {
    if (found.length === PAIRS_PER_ROUND) break;
    // Two strategies may have written the same text, which nobody can vote on.
    const at = order.findIndex(([a, b]) => texts[a].text !== texts[b].text);
    if (at < 0) continue;
    const [[a, b]] = order.splice(at, 1);
    order.push([a, b]);
    found.push(shuffleSides({ prompt, texts: [texts[a], texts[b]] }, random));
  }
  return found;
}

/**
 * Return a measure of both texts of a pair, null if one of them has none.
 * @param {Written[]} texts
 * @param {Measure} name
 */
export function measureBoth(texts, name) {
  const [a, b] = texts.map((written) => written[name]);
  return a === null || b === null ? null : [a, b];
}

/**
 * Count how often the preferred text had the lower value, among votes whose two texts differ in it.
 * @param {Voted[]} votes
 * @param {Measure} name
 */
export function countLess(votes, name) {
  let less = 0;
  let of = 0;
  for (const { vote, texts } of votes) {
    const measured = measureBoth(texts, name);
    if (vote === null || !measured) continue;
    const [a, b] = measured;
    if (a === b) continue;
    of += 1;
    if (a < b === (vote === 0)) less += 1;
  }
  return { less, of };
}

/**
 * Count wins, losses and ties of every strategy, sorted by wins.
 * @param {Voted[]} votes
 * @param {(written: Written) => string} nameOf
 */
export function rankStrategies(votes, nameOf) {
  /** @type {Map<string, { name: string, won: number, lost: number, even: number }>} */
  const found = new Map();
  for (const { vote, texts } of votes)
    for (const [side, written] of texts.entries()) {
      const name = nameOf(written);
      const row = found.get(name) ?? { name, won: 0, lost: 0, even: 0 };
      if (vote === null) row.even += 1;
      else if (vote === side) row.won += 1;
      else row.lost += 1;
      found.set(name, row);
    }
  return [...found.values()].sort((a, b) => b.won - a.won);
}

/**
 * The two-sided p-value of so many wins in so many trials. Votes stay in the browser.
 * @computed engine.statistics.sign_test.sign_test
 * @param {number} wins
 * @param {number} trials
 */
export function signTest(wins, trials) {
  const fewer = Math.min(wins, trials - wins);
  let tail = 0;
  let ways = 1;
  for (let k = 0; k <= fewer; k++) {
    tail += ways;
    ways = (ways * (trials - k)) / (k + 1);
  }
  return Math.min(1, (2 * tail) / 2 ** trials);
}
