// A branch of a run: the tokens it keeps, and the choices that can replace a step's token.
import {
  beamPath,
  beamPool,
  findDecidedIndex,
  findDecidedToken,
} from "../../../visualizers/shared/record.mjs";
import { formatPercent, tokenLabel } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

/**
 * What can replace a step's token: a candidate, or a node of a search.
 * @typedef {object} Choice
 * @property {number} token_id
 * @property {number | null} model its probability in the model's own distribution
 * @property {number | null} used its probability with the run's settings
 * @property {BeamNode | null} node
 * @property {boolean} usable
 */

/**
 * Whether a step belongs to a beam search.
 * @param {Step} step
 */
export const isBeamStep = (step) => step?.detail?.kind === "beam";

/**
 * Number of tokens at the end of a run's prompt that it and earlier branches had added.
 * @param {Run} run
 */
export const countBranchTokens = ({ parent }) =>
  parent ? (parent.earlier ?? 0) + parent.kept + parent.token_ids.length : 0;

/**
 * Whether a run on a server cannot be continued, because the ids of its prompt are unknown.
 * @param {Run} run
 */
export const lacksIds = (run) => !!run.served && !run.prompt_ids.length;

/**
 * Return what a branch of a run on a server says besides; nothing for another run.
 * @param {Run} run
 * @param {Step} step
 */
export const serverFields = (run, step) =>
  run.served
    ? {
        parent_model: run.form?.model,
        merged: run.steps.slice(0, step.index).some(({ detail }) => detail?.merged),
      }
    : {};

/**
 * Return the ids of the generated tokens before the one that a step decided.
 * A branch keeps exactly these.
 * @param {Run} run
 * @param {Step} step
 * @param {BeamNode | null} [node] the node that decided it, in a search
 */
export function keptTokenIds(run, step, node) {
  if (node)
    return beamPath(run, node, step.index)
      .slice(0, -1)
      .map((n) => n.token_id);
  /** @type {number[]} */
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
 * @returns {Choice[]}
 */
export function listChoices(run, step) {
  /** @param {number} id */
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
  const pool = beamPool(step).map((node, i) => ({
    token_id: node.token_id,
    model: shown.beam_tree.model[i],
    used: shown.beam_tree.p[i],
    node,
    usable: usable(node.token_id),
  }));
  return pool.sort((a, b) => a.node.group - b.node.group || a.node.rank - b.node.rank);
}

/**
 * Return both probabilities, or one number if they look the same.
 * @param {number | null} model
 * @param {number | null} used
 */
function probabilityText(model, used) {
  const own = formatPercent(used ?? 0);
  if (model === null || formatPercent(model) === own) return own;
  return tr("the model's own {model}, with your settings {used}", {
    model: formatPercent(model),
    used: own,
  });
}

/**
 * Return the label of a choice: its token and its probabilities, for a beam node also its parent.
 * @param {Run} run
 * @param {Step} step
 * @param {Choice} choice
 */
export function choiceLabel(run, step, { token_id, model, used, node }) {
  const before = node ? keptTokenIds(run, step, node).slice(-1) : [];
  const parent = before.map((id) => tokenLabel(run, id)).join("") || tr("prompt");
  return `${node ? `${parent} → ` : ""}${tokenLabel(run, token_id)}   ${probabilityText(model, used)}`;
}

/**
 * Return the index of the wanted choice, else of the best one that the run did not take.
 * @param {Step} step
 * @param {Choice[]} choices
 * @param {Fork | null} wanted
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
