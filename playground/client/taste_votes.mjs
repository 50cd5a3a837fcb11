// Votes of a blind taste test: which pairs are shown, on which side each text stands, and what the votes come to.

import { tr } from "../../visualizers/shared/tr.mjs";

/**
 * A text that some strategy wrote, and what is measured of it.
 * @typedef {{ strategy: string, params: Record<string, any>, text: string, perplexity: number | null,
 *   rep_3: number, tokens: number }} Written
 */

/** @typedef {{ prompt: string, texts: [Written, Written] }} Pair the left text, then the right one */

/** @typedef {Pair & { vote: Side | null }} Voted null: no difference */

/** @typedef {0 | 1} Side */

/** What is measured of a text: its name, and which end of it is named in a sentence. */
export const MEASURES = [
  { name: "perplexity", less: tr("the lower perplexity") },
  { name: "rep_3", less: tr("fewer repeated 3-grams") },
  { name: "tokens", less: tr("fewer tokens") },
];

export const ROUND = 10;

/**
 * A list in an order of chance; Fisher and Yates.
 * @template T
 * @param {T[]} list
 * @param {() => number} random from 0 to 1, without 1
 */
export function shuffled(list, random) {
  const made = [...list];
  for (let i = made.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [made[i], made[j]] = [made[j], made[i]];
  }
  return made;
}

/**
 * The texts of one prompt on sides that chance has chosen.
 * @param {Pair} pair
 * @param {() => number} random
 * @returns {Pair}
 */
export function sided({ prompt, texts: [a, b] }, random) {
  return { prompt, texts: random() < 0.5 ? [a, b] : [b, a] };
}

/**
 * Pairs of recorded texts for a round, each of another prompt, all pairs of ways about equally often.
 * @param {{ prompt: string, texts: Written[] }[]} prompts
 * @param {() => number} random
 * @returns {Pair[]}
 */
export function pairsOf(prompts, random) {
  const ways = prompts[0].texts.length;
  const both = [];
  for (let a = 0; a < ways; a++) for (let b = a + 1; b < ways; b++) both.push([a, b]);
  const order = shuffled(both, random);
  const found = [];
  for (const { prompt, texts } of shuffled(prompts, random)) {
    if (found.length === ROUND) break;
    // Two ways may have written the same.
    const at = order.findIndex(([a, b]) => texts[a].text !== texts[b].text);
    if (at < 0) continue;
    const [[a, b]] = order.splice(at, 1);
    order.push([a, b]);
    found.push(sided({ prompt, texts: [texts[a], texts[b]] }, random));
  }
  return found;
}

/**
 * How often the preferred text had less of a measure, of the votes in which the two texts differ in it.
 * @param {Voted[]} votes
 * @param {string} name
 */
export function lessOf(votes, name) {
  const told = votes.filter(({ vote, texts: [a, b] }) => {
    const known = a[name] !== null && b[name] !== null;
    return vote !== null && known && a[name] !== b[name];
  });
  const less = told.filter(({ vote, texts }) => texts[vote][name] < texts[1 - vote][name]);
  return { less: less.length, of: told.length };
}

/**
 * Of every strategy how often it was preferred, passed over, or found no different, in the order of wins.
 * @param {Voted[]} votes
 * @param {(written: Written) => string} nameOf
 */
export function standings(votes, nameOf) {
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
 * @computed engine.reading.sign_test.sign_test
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
