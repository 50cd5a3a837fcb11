// Words and numbers of contrastive search.
import { fixed, percent, piece } from "../shared/text.mjs";

/**
 * Ids that a candidate's position counts, up to (not including) one step.
 * @param {Run} run
 */
export function idsBefore(run, index) {
  const ids = run.model.is_encoder_decoder ? [] : run.prompt_ids.slice();
  for (const step of run.steps.slice(0, index)) ids.push(step.emit[0]);
  return ids;
}

/** @param {Run} run */
export const nameAt = (run, ids, position) => (position < 0 ? "start" : piece(run, ids[position]));

/** @param {Step} step */
export const isContrastive = (step) => step?.detail?.kind === "contrastive";

/**
 * Why the step took this token and not the most probable one.
 * @param {Run} run
 */
export function reasonOf(run, { options, chosen }) {
  if (!chosen)
    return "The most probable token also has the best score: greedy search would take it too.";
  const [first] = options;
  const winner = options[chosen];
  return `The most probable token, “${piece(run, first.token_id)}”, resembles what was already said and loses ${fixed(first.degeneration_penalty)}; “${piece(run, winner.token_id)}” scores higher by ${fixed(winner.score - first.score)}.`;
}

/**
 * How often similarity decided.
 * @param {Run} run
 */
export function totalOf(run, seen, changed) {
  const repeated = run.metrics?.rep_3;
  const share = repeated ? percent(repeated) : "None";
  const repeats =
    repeated === undefined ? "" : `${share} of the output's 3-grams repeat an earlier one. `;
  return `${repeats}Similarity changed the choice in ${changed} of ${seen} steps${changed ? ":" : "."}`;
}
