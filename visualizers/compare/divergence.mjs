// The first token at which the texts of several runs differ, and each run's candidates there.
import { createTable, el } from "../shared/dom.mjs";
import { processorTitle } from "../shared/processors.mjs";
import { beamPool } from "../shared/record.mjs";
import {
  FATE_TEXT,
  formatFixed,
  formatModelAndUsed,
  formatWholePercent,
  toCssLength,
  tokenLabel,
} from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @typedef {Candidate & { raw: number, processed: number }} ShownCandidate */

/**
 * What a run has at a position: a pool, a list of candidates, or a sentence.
 * @typedef {object} DivergenceSide
 * @property {{ id: number }} [token]
 * @property {Step} [step]
 * @property {BeamNode[]} [pool]
 * @property {Set<number>} [path] nodes of the winner
 * @property {ShownCandidate[]} [list]
 * @property {number} [chosen]
 * @property {string} [words]
 * @property {string} [note]
 */

// Number of candidates or beams that fit next to those of another run.
const MAX_SHOWN = 6;

/** @param {Run} run */
export const hasEnded = (run) => run.status !== "running";

/**
 * Index of the first token at which two texts differ, null if they are equal. The page computes it,
 * because a visitor can compare runs that the server has forgotten.
 * @computed engine.statistics.text_divergence.common_prefix_length
 * @param {number[]} a
 * @param {number[]} b
 */
export function findDivergence(a, b) {
  const longest = Math.max(a.length, b.length);
  for (let at = 0; at < longest; at++) if (a[at] !== b[at]) return at;
  return null;
}

/**
 * A sentence on the number of tokens that the texts share.
 * @param {number} common
 */
export function divergenceText(common) {
  if (common < 1) return tr("The texts diverge at the very first token.");
  return common === 1
    ? tr("The first token is the same; the texts diverge at token 2.")
    : tr("The first {n} tokens are the same; the texts diverge at token {next}.", {
        n: common,
        next: common + 1,
      });
}

/**
 * Ids of the nodes of the winner; empty while the search goes on.
 * @param {Run} run
 * @returns {Set<number>}
 */
function winnerNodes(run) {
  const last = run.steps.at(-1)?.detail;
  const path = new Set();
  if (!hasEnded(run) || !last || last.winner_node_id === null) return path;
  const nodes = new Map(run.steps.flatMap((s) => beamPool(s).map((n) => [n.node_id, n])));
  for (let node = nodes.get(last.winner_node_id); node; node = nodes.get(node.parent_id))
    path.add(node.node_id);
  return path;
}

/**
 * @param {Step} step
 * @returns {BeamNode[]}
 */
export const listBestBeams = (step) =>
  [...beamPool(step)].sort((a, b) => b.sum_logprobs - a.sum_logprobs).slice(0, MAX_SHOWN);

/**
 * The first candidates of a step with their probabilities from the summary.
 * @param {Run} run
 * @param {Step} step
 */
export function topCandidates(run, step) {
  const { raw, processed } = run.shown[step.index].candidates;
  const all = step.candidates.slice(0, MAX_SHOWN);
  return all.map((c, i) => ({ ...c, raw: raw[i], processed: processed[i] }));
}

/**
 * The candidates that a run recorded at a position. Only the last token of a step has candidates;
 * for others a sentence says why there are none.
 * @param {Run} run
 * @param {number} at
 * @returns {DivergenceSide}
 */
export function describeSide(run, at) {
  const token = (run.tokens[0] || [])[at];
  if (!token) return { words: hasEnded(run) ? tr("The text had ended.") : tr("Not there yet.") };
  const deep = run.steps.filter((s) => s.sequence === 0)[at];
  if (deep?.detail?.kind === "beam")
    return { token, step: deep, pool: listBestBeams(deep), path: winnerNodes(run) };
  const step = run.steps[token.step];
  const offset = at - step.keep;
  if (offset === step.emit.length - 1)
    return { token, step, list: topCandidates(run, step), chosen: token.id };
  const drafted = step.detail?.kind === "draft" && step.detail.tokens[offset];
  const number = step.index + 1;
  return { token, step, words: drafted ? draftText(drafted, number) : multiTokenText(number) };
}

/** @param {number} number */
const multiTokenText = (number) =>
  tr("Written by step {n}, which changed several tokens at once.", { n: number });

/** @type {Record<string, string>} */
const JUDGED_TEXT = {
  accepted: tr("accepted"),
  rejected: tr("rejected"),
  unverified: tr("unverified"),
};

/**
 * @param {DraftToken} token
 * @param {number} number
 */
function draftText({ status, p, q }, number) {
  const values = { status: JUDGED_TEXT[status] ?? status, n: number, p: formatWholePercent(p) };
  if (q === null)
    return tr(
      "Drafted and {status} in round {n}: with your settings the main model gives it {p}.",
      values,
    );
  return tr(
    "Drafted and {status} in round {n}: with your settings the main model gives it {p}, the draft model {q}.",
    { ...values, q: formatWholePercent(q) },
  );
}

/**
 * Render the result of ``describeSide`` as bars, as a table of beams, or as a sentence.
 * @param {Run} run
 * @param {DivergenceSide} found
 */
export function createSideView(run, found) {
  if (found.pool) return createBeamTable(run, found.pool, found);
  if (!found.list) return el("p", { class: "dp-note" }, found.words);
  return el(
    "div",
    { class: "dp-bars" },
    found.list.flatMap((c) => createCandidateCells(run, c, c.token_id === found.chosen)),
  );
}

/**
 * @param {Run} run
 * @param {BeamNode[]} pool
 * @param {DivergenceSide} side
 */
function createBeamTable(run, pool, { path, note }) {
  const rows = pool.map((n) => [
    (path?.has(n.node_id) ? "▸ " : "") + tokenLabel(run, n.token_id),
    formatFixed(n.sum_logprobs, 2),
    FATE_TEXT[n.fate],
  ]);
  return el(
    "div",
    {},
    createTable([tr("token"), tr("log-probability of the text so far, nats"), tr("result")], rows),
    el(
      "p",
      { class: "dp-note" },
      note || tr("The best of all beams at this depth; ▸ is the text that won."),
    ),
  );
}

/**
 * @param {Run} run
 * @param {ShownCandidate} candidate
 * @param {boolean} chosen
 */
function createCandidateCells(run, candidate, chosen) {
  const { removed_by: removed, raw, processed } = candidate;
  return [
    el(
      "span",
      { class: `t${chosen ? " on" : ""}${removed ? " gone" : ""}` },
      tokenLabel(run, candidate.token_id),
    ),
    el(
      "span",
      { class: `b${chosen ? " on" : ""}` },
      el("i", { style: { width: toCssLength(processed) } }),
      el("u", { style: { width: toCssLength(raw) } }),
    ),
    el(
      "span",
      {
        class: "n",
        title: tr("the model's own {own}, with your settings {used}", {
          own: formatWholePercent(raw),
          used: formatWholePercent(processed),
        }),
      },
      formatModelAndUsed(raw, processed),
    ),
    el("span", { class: "r" }, removed ? `✕ ${processorTitle(removed)}` : ""),
  ];
}
