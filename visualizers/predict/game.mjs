// Which steps of a run can be guessed, what is offered, what a guess is worth, and what the guesses come to.
import { ownPlace, ownToken } from "../shared/record.mjs";
import { piece, textOfId } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/**
 * A guess with what the model gave to it and to the token that was written there; log-probabilities of the
 * model's own distribution, null for a token that it held to be impossible, undefined where nothing tells.
 * @typedef {object} Guess
 * @property {number | null | undefined} logprob
 * @property {number | null} written
 * @property {boolean} right
 */

/** @typedef {{ steps: Step[], shown: Shown[] }} Steps as far as they are known */

export const OFFERED = 6;
const FAVOURITES = 3;
const NEIGHBOURS = OFFERED - FAVOURITES;
// How far down the list the others of an offer may begin.
const DEEPEST = 9;

export const REWRITES = tr("took back some of the text");
export const SILENT = tr("wrote nothing");
export const UNSEEN = tr("recorded no candidates of what was written");
export const APART = tr("wrote an output that another one before it gives away");

/**
 * All that is known of a run, also what a player does not show yet.
 * @param {Run} run
 * @returns {Steps}
 */
export const wholeOf = (run) =>
  run.source ? { steps: run.source.trace.steps, shown: run.source.shown } : run;

/**
 * How many tokens an output has before a step.
 * @param {Step[]} steps
 * @param {Step} step
 */
function lengthBefore(steps, { index, sequence }) {
  const last = steps.findLast((s) => s.index < index && s.sequence === sequence);
  return last ? last.keep + last.emit.length : 0;
}

/**
 * How many steps may be seen while one is guessed: those before it that saw none of its place, as outputs
 * that are written side by side begin alike.
 * @param {Step[]} steps
 * @param {number} index
 */
export function seenBefore(steps, index) {
  const { sequence, keep } = steps[index];
  const place = keep + ownPlace(steps[index]);
  const later = (s) => s.sequence !== sequence && s.keep + s.emit.length > place;
  const first = steps.findIndex(later);
  return first < 0 ? index : Math.min(first, index);
}

/**
 * Why a step cannot be guessed, empty where it can.
 * @param {Steps} run
 * @param {number} index
 */
export function refusalOf({ steps, shown }, index) {
  const step = steps[index];
  const own = ownToken(step);
  if (step.keep !== lengthBefore(steps, step)) return REWRITES;
  if (own === undefined) return SILENT;
  if (!step.candidates.some((c) => c.token_id === own)) return UNSEEN;
  const tree = step.detail?.kind === "beam" ? shown[index].beam_tree : null;
  // The candidates of a search's step are those of one of its texts, which need not be the one that leads.
  const leads = tree && step.detail.pool.find((n) => n.node_id === tree.best);
  if (tree && (leads?.parent_id !== tree.row || leads.token_id !== own)) return UNSEEN;
  const hidden = steps.slice(seenBefore(steps, index), index);
  return hidden.some((s) => s.sequence === step.sequence) ? APART : "";
}

/**
 * The next step of an output that can be guessed, null for none so far, and why others are passed over.
 * @param {Steps} run
 * @param {number} sequence
 * @param {number} from
 */
export function nextOf(run, sequence, from) {
  /** @type {Map<string, number>} reason -> how many steps */
  const passed = new Map();
  for (let index = from; index < run.steps.length; index++) {
    if (run.steps[index].sequence !== sequence) continue;
    const reason = refusalOf(run, index);
    if (!reason) return { index, passed };
    passed.set(reason, (passed.get(reason) ?? 0) + 1);
  }
  return { index: null, passed };
}

const byRank = (step) => [...step.candidates].sort((a, b) => a.rank - b.rank);

// The same for everybody who guesses this step of this run.
const chance = (seed, index) => {
  let x = (seed ^ Math.imul(index + 1, 0x9e3779b1)) >>> 0;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
};

/**
 * Tokens to choose from, in alphabetical order: the model's favourites, and as many neighbours from further
 * down its list; the one that was written is among either, so that neither its rank nor its place tells.
 * @param {Run} run
 * @param {Step} step
 * @returns {number[]} their ids
 */
export function offersOf(run, step) {
  const own = ownToken(step);
  const named = new Map();
  for (const { token_id: id } of byRank(step)) {
    const name = piece(run, id);
    // Of tokens that read alike nobody could choose one; the written one stays.
    if (!named.has(name) || id === own) named.set(name, id);
  }
  const list = [...named.values()];
  const last = Math.max(FAVOURITES, Math.min(DEEPEST, list.length - NEIGHBOURS));
  const at = list.indexOf(own);
  const [least, most] =
    at < FAVOURITES
      ? [FAVOURITES, last]
      : [
          Math.max(FAVOURITES, at - NEIGHBOURS + 1),
          Math.max(FAVOURITES, Math.min(at, list.length - NEIGHBOURS)),
        ];
  const start = least + (chance(run.seed, step.index) % (Math.max(most, least) - least + 1));
  const offered = [...list.slice(0, FAVOURITES), ...list.slice(start, start + NEIGHBOURS)];
  const key = (id) => textOfId(run, id).trim().toLowerCase();
  return offered.sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : a - b));
}

/**
 * What the record knows of a typed text at a step: the candidate that reads so, its space typed or not; the
 * log-probability that every other token has at most; or nothing, as the text may begin with a candidate.
 * @param {Run} run
 * @param {Step} step
 * @param {string} text
 * @returns {{ candidate?: Candidate, most?: number | null }}
 */
export function typedOf(run, step, text) {
  const list = byRank(step);
  const readings = [text, ` ${text}`];
  for (const reading of readings) {
    const candidate = list.find((c) => textOfId(run, c.token_id) === reading);
    if (candidate) return { candidate };
  }
  const begins = (c) => {
    const own = textOfId(run, c.token_id);
    return own !== "" && readings.some((reading) => reading.startsWith(own));
  };
  if (list.some(begins)) return {};
  // All tokens down to this rank are recorded, so whatever is not has no more than the last of them.
  const ranked = list.filter((c, i) => c.rank === i);
  return ranked.length ? { most: ranked.at(-1).raw_logprob } : {};
}

/**
 * e to the power of minus the mean of log-probabilities. Guesses are made in the page, also in a saved one
 * without a server.
 * @computed engine.reading.metrics.perplexity_of
 * @param {number[]} logprobs at least one
 */
export function perplexityOf(logprobs) {
  const sum = logprobs.reduce((total, value) => total + value, 0);
  return Math.exp(Math.min(-sum / logprobs.length, 700));
}

/**
 * What guesses come to; those whose probability nobody knows are left out of both perplexities.
 * @param {Guess[]} guesses
 */
export function scoreOf(guesses) {
  const known = guesses.filter(({ logprob }) => logprob !== undefined);
  const over = (of) => (known.length ? perplexityOf(known.map((g) => of(g) ?? -Infinity)) : null);
  return {
    guesses: guesses.length,
    right: guesses.filter(({ right }) => right).length,
    known: known.length,
    own: over((g) => g.logprob),
    model: over((g) => g.written),
  };
}
