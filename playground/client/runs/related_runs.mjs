// Runs related as parent and branch. They stay here after the store has dropped them.
import { fixed, textOfIds } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { declared } from "../shell/spec.mjs";

const KEPT = 60;
const FIRST_WORDS = 14;

export const members = new Map();

/**
 * Remember a run; the oldest of more than 60 is dropped.
 * @param {Run} run
 */
export function adopt(run) {
  if (members.has(run.id)) return;
  members.set(run.id, run);
  while (members.size > KEPT) members.delete(members.keys().next().value);
}

/**
 * Return the run that a branch continues, if it is on this page.
 * @param {Run} run
 */
export const parentOf = (run) => (run.parent ? members.get(run.parent.run_id) : undefined);

/**
 * Return the first ancestor of a run that is on this page.
 * @param {Run} run
 */
export function rootOf(run) {
  const up = parentOf(run);
  return up ? rootOf(up) : run;
}

/**
 * Return [run, depth] of a run and all its branches, depth first.
 * @param {Run} run
 */
export function lineage(run, depth = 0) {
  const children = [...members.values()].filter((m) => m.parent?.run_id === run.id);
  return [[run, depth], ...children.flatMap((child) => lineage(child, depth + 1))];
}

export const titleOf = (name) => declared().strategies.find((s) => s.name === name)?.title ?? name;

/**
 * Return which text a branch puts in, and at which step.
 * @param {Run} run
 */
export function told(run) {
  if (!run.parent) return tr("the first run");
  const { token_ids: ids, text: typed, step } = run.parent;
  const put = { text: textOfIds(run, ids), step: step + 1 };
  return typed === null
    ? tr("‘{text}’ at step {step}", put)
    : tr("‘{text}’, typed, at step {step}", put);
}

/**
 * Return a run's strategy and origin as one label.
 * @param {Run} run
 */
export const nameOf = (run) => `${titleOf(run.strategy)}, ${told(run)}`;

/**
 * Return the beginning of a run's text: at most 14 tokens.
 * @param {Run} run
 */
export function firstWords(run) {
  const tokens = run.tokens[0] || [];
  const ids = tokens.slice(0, FIRST_WORDS).map((t) => t.id);
  const known = ids.filter((id) => run.pieces[id] !== undefined);
  return textOfIds(run, known) + (tokens.length > FIRST_WORDS ? "…" : "");
}

/**
 * Return a run's status, or its mean log-probability or score once it has ended.
 * @param {Run} run
 */
export function figureOf(run) {
  if (run.status === "running") return tr("running");
  if (run.status === "failed") return tr("failed");
  const mean = run.metrics?.mean_logprob;
  if (mean !== undefined) return tr("log-probability {n} a token (nats)", { n: fixed(mean, 2) });
  const score = run.outputs[0]?.score ?? null;
  return score === null ? "" : tr("score {n}", { n: fixed(score, 2) });
}
