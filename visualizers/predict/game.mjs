// Rules of the guessing game: which steps can be guessed, the tokens offered, and the score.
import { findDecidedIndex, findDecidedToken } from "../shared/record.mjs";
import { tokenLabel, tokenText } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/**
 * A guess, with the log-probabilities of the guess and of the written token in the model's own
 * distribution. Null is probability 0, undefined is unknown.
 * @typedef {object} Guess
 * @property {number | null | undefined} logprob
 * @property {number | null} written
 * @property {boolean} right
 */

/** @typedef {{ steps: Step[], shown: Shown[] }} Steps the steps of a run with their summaries */

export const OFFER_COUNT = 6;
const TOP_COUNT = 3;
const NEIGHBOUR_COUNT = OFFER_COUNT - TOP_COUNT;
// Largest rank at which the less likely half of an offer may begin.
const MAX_NEIGHBOUR_START = 9;

export const REWRITES_TEXT = tr("took back some of the text");
export const WROTE_NOTHING = tr("wrote nothing");
export const NOT_RECORDED = tr("recorded no candidates of what was written");
export const GIVEN_AWAY = tr("wrote an output that another one before it gives away");

/**
 * All steps of a run, also those that a player does not show yet.
 * @param {Run} run
 * @returns {Steps}
 */
export const allSteps = (run) =>
  run.source ? { steps: run.source.trace.steps, shown: run.source.shown } : run;

/**
 * Number of tokens of an output before a step.
 * @param {Step[]} steps
 * @param {Step} step
 */
function countTokensBefore(steps, { index, sequence }) {
  const last = steps.findLast((s) => s.index < index && s.sequence === sequence);
  return last ? last.keep + last.emit.length : 0;
}

/**
 * Number of steps that may be visible while a step is guessed. Steps of other outputs that already
 * reached its position are hidden, because outputs of one prompt often begin alike.
 * @param {Step[]} steps
 * @param {number} index
 */
export function countVisibleSteps(steps, index) {
  const { sequence, keep } = steps[index];
  const place = keep + findDecidedIndex(steps[index]);
  /** @param {Step} s */
  const later = (s) => s.sequence !== sequence && s.keep + s.emit.length > place;
  const first = steps.findIndex(later);
  return first < 0 ? index : Math.min(first, index);
}

/**
 * The reason why a step cannot be guessed, empty if it can.
 * @param {Steps} run
 * @param {number} index
 */
export function refusalReason({ steps, shown }, index) {
  const step = steps[index];
  const own = findDecidedToken(step);
  if (step.keep !== countTokensBefore(steps, step)) return REWRITES_TEXT;
  if (own === undefined) return WROTE_NOTHING;
  if (!step.candidates.some((c) => c.token_id === own)) return NOT_RECORDED;
  const tree = step.detail?.kind === "beam" ? shown[index].beam_tree : null;
  // A beam search step records the candidates of one text, which need not be the leading one.
  /** @type {BeamNode[]} */
  const pool = tree ? step.detail.pool : [];
  const leads = pool.find((n) => n.node_id === tree?.best);
  if (tree && (leads?.parent_id !== tree.row || leads.token_id !== own)) return NOT_RECORDED;
  const hidden = steps.slice(countVisibleSteps(steps, index), index);
  return hidden.some((s) => s.sequence === step.sequence) ? GIVEN_AWAY : "";
}

/**
 * The next step of an output that can be guessed (null if
 * none so far), and the reasons for which steps were skipped.
 * @param {Steps} run
 * @param {number} sequence
 * @param {number} from
 */
export function findNextStep(run, sequence, from) {
  /** @type {Map<string, number>} reason -> how many steps */
  const passed = new Map();
  for (let index = from; index < run.steps.length; index++) {
    if (run.steps[index].sequence !== sequence) continue;
    const reason = refusalReason(run, index);
    if (!reason) return { index, passed };
    passed.set(reason, (passed.get(reason) ?? 0) + 1);
  }
  return { index: null, passed };
}

/** @param {Step} step */
const sortByRank = (step) => [...step.candidates].sort((a, b) => a.rank - b.rank);

/**
 * A hash of seed and step, so that all visitors get the same offer for the same step.
 * @param {number} seed
 * @param {number} index
 */
const hashStep = (seed, index) => {
  let x = (seed ^ Math.imul(index + 1, 0x9e3779b1)) >>> 0;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
};

/**
 * The tokens to choose from, in alphabetical order: the most probable
 * ones and as many neighbours from further down. The written token is
 * in one of both groups, so neither rank nor position reveals it.
 * @param {Run} run
 * @param {Step} step
 * @returns {number[]} their ids
 */
export function chooseOffers(run, step) {
  const own = findDecidedToken(step);
  const named = new Map();
  for (const { token_id: id } of sortByRank(step)) {
    const name = tokenLabel(run, id);
    // Tokens with the same label look alike, so one is kept: the written one, or the likeliest.
    if (!named.has(name) || id === own) named.set(name, id);
  }
  const list = [...named.values()];
  const last = Math.max(TOP_COUNT, Math.min(MAX_NEIGHBOUR_START, list.length - NEIGHBOUR_COUNT));
  const at = list.indexOf(own);
  const [least, most] =
    at < TOP_COUNT
      ? [TOP_COUNT, last]
      : [
          Math.max(TOP_COUNT, at - NEIGHBOUR_COUNT + 1),
          Math.max(TOP_COUNT, Math.min(at, list.length - NEIGHBOUR_COUNT)),
        ];
  const start = least + (hashStep(run.seed, step.index) % (Math.max(most, least) - least + 1));
  const offered = [...list.slice(0, TOP_COUNT), ...list.slice(start, start + NEIGHBOUR_COUNT)];
  /** @param {number} id */
  const key = (id) => tokenText(run, id).trim().toLowerCase();
  return offered.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : a - b));
}

/**
 * Look a typed text up among the candidates of a step, with or without a leading space. Returns the
 * candidate with this text, or the largest log-probability that a token outside the record can
 * have, or {} if the text begins with a candidate and so may consist of several tokens.
 * @param {Run} run
 * @param {Step} step
 * @param {string} text
 * @returns {{ candidate?: Candidate, most?: number | null }}
 */
export function matchTypedText(run, step, text) {
  const list = sortByRank(step);
  const readings = [text, ` ${text}`];
  for (const reading of readings) {
    const candidate = list.find((c) => tokenText(run, c.token_id) === reading);
    if (candidate) return { candidate };
  }
  /** @param {Candidate} c */
  const begins = (c) => {
    const own = tokenText(run, c.token_id);
    return own !== "" && readings.some((reading) => reading.startsWith(own));
  };
  if (list.some(begins)) return {};
  // These candidates have consecutive ranks, so a token outside
  // the record is at most as probable as the last of them.
  const ranked = list.filter((c, i) => c.rank === i);
  const least = ranked.at(-1);
  return least ? { most: least.raw_logprob } : {};
}

/**
 * Perplexity: e to the power of minus the mean log-probability. The page computes it, because
 * guesses are also made in saved pages without a server.
 * @computed engine.statistics.metrics.perplexity_from_logprobs
 * @param {number[]} logprobs at least one
 */
export function computePerplexity(logprobs) {
  const sum = logprobs.reduce((total, value) => total + value, 0);
  return Math.exp(Math.min(-sum / logprobs.length, 700));
}

/**
 * Score of all guesses. Guesses with unknown probability are left out of both perplexities.
 * @param {Guess[]} guesses
 */
export function scoreGuesses(guesses) {
  const known = guesses.filter(({ logprob }) => logprob !== undefined);
  /** @param {(guess: Guess) => number | null | undefined} of */
  const over = (of) =>
    known.length ? computePerplexity(known.map((g) => of(g) ?? -Infinity)) : null;
  return {
    guesses: guesses.length,
    right: guesses.filter(({ right }) => right).length,
    known: known.length,
    own: over((g) => g.logprob),
    model: over((g) => g.written),
  };
}
