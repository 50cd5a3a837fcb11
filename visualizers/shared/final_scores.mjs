// Scores of tokens from one pass over the finished text, for steps whose distribution was not seen.
import { formatCount, formatPercent, tokenLabel } from "./text.mjs";
import { tr } from "./tr.mjs";

/** @typedef {{ id: number, logprob: number | null, rank: number, entropy: number, top: [number, number][] }} Outside */

/**
 * Probability from a recorded log-probability; null is a token with probability 0.
 * @drawing
 * @param {number | null} logprob
 */
export const toProbability = (logprob) => (logprob === null ? 0 : Math.exp(logprob));

/**
 * Score of a token of a step. Null before the run ends, for a token that was removed again, and if
 * the finished text was not scored.
 * @param {Run} run
 * @param {Step} step
 * @param {number} place of the token among the tokens of the step
 * @returns {Outside | null}
 */
export function findFinalScore(run, step, place) {
  const at = step.keep + place;
  const token = run.tokens[step.sequence]?.[at];
  const read = run.emitted?.[step.sequence]?.[at];
  const stands =
    token?.step === step.index && run.outputs?.[step.sequence]?.token_ids[at] === token.id;
  return stands && read ? { id: token.id, ...read } : null;
}

/**
 * @param {Run} run
 * @param {Outside} found
 */
export const finalScoreText = (run, { id, logprob, rank }) =>
  tr(
    "the model gives “{token}” {share}, place {place}: read from outside, in one pass over the finished text",
    {
      token: tokenLabel(run, id),
      share: formatPercent(toProbability(logprob)),
      place: formatCount(rank + 1),
    },
  );
