// What one pass over a finished text says of tokens that nobody saw being decided.
import { grouped, percent, piece } from "./text.mjs";
import { tr } from "./tr.mjs";

/** @typedef {{ id: number, logprob: number | null, rank: number, entropy: number, top: [number, number][] }} Outside */

/**
 * A recorded log-probability as a probability; nothing is what the model held to be impossible.
 * @drawing
 * @param {number | null} logprob
 */
export const probabilityOf = (logprob) => (logprob === null ? 0 : Math.exp(logprob));

/**
 * What is known from outside of a token of a step: null before the end, for a token that was taken back, and
 * where the text was not read once more.
 * @param {Run} run
 * @param {Step} step
 * @param {number} place of the token among those that the step wrote
 * @returns {Outside | null}
 */
export function outsideOf(run, step, place) {
  const at = step.keep + place;
  const token = run.tokens[step.sequence]?.[at];
  const read = run.emitted?.[step.sequence]?.[at];
  const stands =
    token?.step === step.index && run.outputs?.[step.sequence]?.token_ids[at] === token.id;
  return stands && read ? { id: token.id, .../** @type {any} */ (read) } : null;
}

/**
 * @param {Run} run
 * @param {Outside} found
 */
export const outsideSaid = (run, { id, logprob, rank }) =>
  tr(
    "the model gives “{token}” {share}, place {place}: read from outside, in one pass over the finished text",
    { token: piece(run, id), share: percent(probabilityOf(logprob)), place: grouped(rank + 1) },
  );
