// Runs related as parent and branch. They stay here after the store has dropped them.
import { formatFixed, tokensText } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { getDeclaration } from "../shell/spec.mjs";

const MAX_RUNS = 60;
const SHOWN_TOKENS = 14;

/** @type {Map<string, Run>} */
export const relatedRuns = new Map();

/**
 * Remember a run; the oldest of more than 60 is dropped.
 * @param {Run} run
 */
export function rememberRun(run) {
  if (relatedRuns.has(run.id)) return;
  relatedRuns.set(run.id, run);
  for (const oldest of [...relatedRuns.keys()].slice(0, -MAX_RUNS)) relatedRuns.delete(oldest);
}

/**
 * Return the run that a branch continues, if it is on this page.
 * @param {Run} run
 */
export const parentRun = (run) => (run.parent ? relatedRuns.get(run.parent.run_id) : undefined);

/**
 * Name the tokens of a branch that its server read as ids: the run that it continues has their texts.
 * @param {Run} run
 */
export function nameKeptTokens(run) {
  const parent = run.served && parentRun(run);
  if (!parent) return;
  for (const [id, piece] of Object.entries(parent.pieces))
    if (run.pieces[Number(id)] === `\uFFFD${id}`) run.pieces[Number(id)] = piece;
}

/**
 * Return the first ancestor of a run that is on this page.
 * @param {Run} run
 * @returns {Run}
 */
export function rootRun(run) {
  const up = parentRun(run);
  return up ? rootRun(up) : run;
}

/**
 * Return [run, depth] of a run and all its branches, depth first.
 * @param {Run} run
 * @returns {[Run, number][]}
 */
export function listBranches(run, depth = 0) {
  const children = [...relatedRuns.values()].filter((m) => m.parent?.run_id === run.id);
  return [[run, depth], ...children.flatMap((child) => listBranches(child, depth + 1))];
}

/**
 * Return the strategy that asked for a run: the record of a run on a server names none of the page.
 * @param {Run} run
 */
export const askedStrategy = (run) => (run.served && run.form?.strategy) || run.strategy;

/** @param {string} name */
export const strategyTitle = (name) =>
  getDeclaration().strategies.find((s) => s.name === name)?.title ?? name;

/**
 * Return which text a branch puts in, and at which step.
 * @param {Run} run
 */
export function branchOrigin(run) {
  if (!run.parent) return tr("the first run");
  const { token_ids: ids, text: typed, step } = run.parent;
  const put = { text: tokensText(run, ids), step: step + 1 };
  return typed === null
    ? tr("‘{text}’ at step {step}", put)
    : tr("‘{text}’, typed, at step {step}", put);
}

/**
 * Return a run's strategy and origin as one label.
 * @param {Run} run
 */
export const branchName = (run) => `${strategyTitle(askedStrategy(run))}, ${branchOrigin(run)}`;

/**
 * Return the beginning of a run's text: at most 14 tokens.
 * @param {Run} run
 */
export function firstWords(run) {
  const tokens = run.tokens[0] || [];
  const ids = tokens.slice(0, SHOWN_TOKENS).map((t) => t.id);
  const known = ids.filter((id) => run.pieces[id] !== undefined);
  return tokensText(run, known) + (tokens.length > SHOWN_TOKENS ? "…" : "");
}

/**
 * Return a run's status, or its mean log-probability or score once it has ended.
 * @param {Run} run
 */
export function runFigure(run) {
  if (run.status === "running") return tr("running");
  if (run.status === "failed") return tr("failed");
  const mean = run.metrics?.mean_logprob;
  if (mean !== undefined)
    return tr("log-probability {n} a token (nats)", { n: formatFixed(mean, 2) });
  const score = run.outputs[0]?.score ?? null;
  return score === null ? "" : tr("score {n}", { n: formatFixed(score, 2) });
}
