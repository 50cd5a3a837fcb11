// Texts and positions for the view of contrastive search.
import { formatCount, formatFixed, formatPercent, tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

export const START_TEXT = tr("start");

/**
 * Ids of the text before a step, which the positions of its candidates index.
 * @param {Run} run
 * @param {number} index
 */
export function contextIds(run, index) {
  const { sequence } = run.steps[index];
  const before = run.steps.slice(0, index).filter((step) => step.sequence === sequence);
  const prompt = run.model.is_encoder_decoder ? [] : run.prompt_ids;
  return [...prompt, ...before.map((step) => step.emit[0])];
}

/**
 * @param {Run} run
 * @param {number[]} ids
 * @param {number} position
 */
export const tokenAt = (run, ids, position) =>
  position < 0 ? START_TEXT : tokenLabel(run, ids[position]);

/**
 * Number of a token in prompt and text, from 1; empty for the start token.
 * @param {number} position
 */
export const positionText = (position) =>
  position < 0 ? "" : tr(" (token {n})", { n: position + 1 });

/** @param {Step} step */
export const isContrastiveStep = (step) => step?.detail?.kind === "contrastive";

/**
 * The summary of a step.
 * @param {Run} run
 * @param {Step} step
 */
export const stepSummary = (run, step) => run.shown[step.index].contrastive;

/**
 * The reason why the step chose this token and not the most probable one.
 * @param {Run} run
 * @param {Step} step
 */
export function reasonText(run, step) {
  const { options, chosen } = step.detail;
  if (!chosen)
    return tr("The most probable token also has the best score: greedy search would take it too.");
  const [first] = options;
  const winner = options[chosen];
  return tr(
    "The most probable token, “{first}”, resembles what was already said and loses {penalty}; “{winner}” scores higher by {gain}.",
    {
      first: tokenLabel(run, first.token_id),
      penalty: formatFixed(first.degeneration_penalty),
      winner: tokenLabel(run, winner.token_id),
      gain: formatFixed(stepSummary(run, step).gain),
    },
  );
}

/**
 * A sentence on how often similarity changed the choice.
 * @param {Run} run
 */
export function totalText(run) {
  const last = run.steps.at(-1);
  const { steps, changed } = (last && stepSummary(run, last)) || { steps: 0, changed: 0 };
  const repeated = run.metrics?.rep_3;
  const some = repeated
    ? tr("{share} of the output's 3-grams repeat an earlier one. ", {
        share: formatPercent(repeated),
      })
    : tr("None of the output's 3-grams repeat an earlier one. ");
  const decided =
    steps === 1
      ? tr("Similarity changed the choice in {changed} of 1 step", { changed })
      : tr("Similarity changed the choice in {changed} of {n} steps", {
          changed,
          n: formatCount(steps),
        });
  return `${repeated === undefined ? "" : some}${decided}${changed ? ":" : "."}`;
}
