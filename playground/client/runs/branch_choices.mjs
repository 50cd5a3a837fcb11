// A branch of a run: the tokens it keeps, and the choices that can replace a step's token.
import {
  beamPath,
  findDecidedIndex,
  findDecidedToken,
} from "../../../visualizers/shared/record.mjs";
import { formatPercent, tokenLabel } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

/**
 * Whether a step belongs to a beam search.
 * @param {Step} step
 */
export const isBeamStep = (step) => step?.detail?.kind === "beam";

/**
 * Return the ids of the generated tokens before the one that a step decided.
 * A branch keeps exactly these.
 * @param {Run} run
 * @param {Step} step
 */
export function keptTokenIds(run, step, node) {
  if (node)
    return beamPath(run, node, step.index)
      .slice(0, -1)
      .map((n) => n.token_id);
  const before = [];
  for (const earlier of run.steps.slice(0, step.index))
    if (earlier.sequence === step.sequence)
      before.splice(earlier.keep, Number.POSITIVE_INFINITY, ...earlier.emit);
  return [
    ...before.slice(0, step.keep),
    ...step.emit.slice(0, Math.max(0, findDecidedIndex(step))),
  ];
}

/**
 * List what can replace a step's token: beam nodes for a beam search, else the candidates.
 * @param {Run} run
 * @param {Step} step
 */
export function listChoices(run, step) {
  const usable = (id) => !run.eos_token_ids.includes(id);
  const shown = run.shown[step.index];
  if (!isBeamStep(step))
    return step.candidates.map(({ token_id }, i) => ({
      token_id,
      model: shown.candidates.raw[i],
      used: shown.candidates.processed[i],
      node: null,
      usable: usable(token_id),
    }));
  const pool = step.detail.pool.map((node, i) => ({
    token_id: node.token_id,
    model: shown.beam_tree.model[i],
    used: shown.beam_tree.p[i],
    node,
    usable: usable(node.token_id),
  }));
  return pool.sort((a, b) => a.node.group - b.node.group || a.node.rank - b.node.rank);
}

// Both probabilities, or one number if they look the same.
const probabilityText = (model, used) =>
  model === null || formatPercent(model) === formatPercent(used)
    ? formatPercent(used)
    : tr("model {model}, as used {used}", {
        model: formatPercent(model),
        used: formatPercent(used),
      });

/**
 * Return the label of a choice: its token and its probabilities, for a beam node also its parent.
 * @param {Run} run
 * @param {Step} step
 */
export function choiceLabel(run, step, { token_id, model, used, node }) {
  const before = node ? keptTokenIds(run, step, node).slice(-1) : [];
  const parent = before.map((id) => tokenLabel(run, id)).join("") || tr("prompt");
  return `${node ? `${parent} → ` : ""}${tokenLabel(run, token_id)}   ${probabilityText(model, used)}`;
}

/**
 * Return the index of the wanted choice, else of the best one that the run did not take.
 * @param {Step} step
 */
export function suggestedIndex(step, choices, wanted) {
  const written = findDecidedToken(step);
  if (wanted?.step === step.index) {
    const at = choices.findIndex(
      ({ token_id, node }) =>
        token_id === wanted.token_id &&
        (wanted.node_id === undefined || node?.node_id === wanted.node_id),
    );
    if (at >= 0) return at;
  }
  return choices.findIndex((c) => c.usable && c.token_id !== written);
}
