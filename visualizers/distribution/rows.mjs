// The rows of a step's bars: from its candidates, from a search's pool, from scores of the finished
// text, or from the settings that a reader tries.
import { finalScoreText, findFinalScore, toProbability } from "../shared/final_scores.mjs";
import { findDecidedToken, findSelectedNode } from "../shared/record.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { tokenLabel, tokensText, wordLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @import { CandidateRow } from "./bars.mjs" */

/**
 * What a picture of a step shows. The last row is that of all other tokens.
 * @typedef {object} StepContent
 * @property {CandidateRow[]} rows
 * @property {(string | HTMLElement)[]} [words] below the bars
 * @property {boolean} [drawn] whether the token was drawn from the rows
 * @property {number | null} [needle] where the draw fell in the chosen token's share
 */

/**
 * The name, exact text and choice of a token's row.
 * @param {Run} run
 * @param {number} id
 * @param {number | null} chosen
 */
const nameRow = (run, id, chosen) => ({
  name: wordLabel(run, id),
  title: tokenLabel(run, id),
  on: id === chosen,
});

/**
 * Row with the probability of all other tokens.
 * @param {number | null} raw
 * @param {number} processed
 * @returns {CandidateRow}
 */
const createRestRow = (raw, processed, name = tr("all others")) => ({
  ...INACTIVE,
  name,
  title: "",
  raw,
  processed,
  on: false,
  rest: true,
});

// Scores of the finished text allow neither a fork nor a question.
const INACTIVE = { removed: null, go: null, why: null };

/** @param {Step} step */
function severalTokensText({ emit: { length: n }, detail }) {
  if (n < 2 || detail?.kind === "beam") return "";
  return detail?.kind === "forward"
    ? tr("This [step] wrote {n} tokens; these are the candidates of the first. ", { n })
    : tr("This [step] wrote {n} tokens; these are the candidates of the last. ", { n });
}

/**
 * Rows of the tokens that a server listed. If it chose, each has one number, and the rest is unseen.
 * @param {Run} run
 * @param {Step} step
 * @param {number | null} chosen
 * @returns {CandidateRow[]}
 */
function servedRows(run, step, chosen) {
  const { raw, processed, rest_raw, rest_processed } = run.shown[step.index].candidates;
  const reported = !step.detail.draw;
  const used = reported ? raw : processed;
  const rows = step.candidates.map(({ token_id: id, removed_by: removed }, i) => ({
    ...INACTIVE,
    ...nameRow(run, id, chosen),
    raw: raw[i],
    processed: used[i],
    removed,
    reported,
  }));
  const rest = reported
    ? createRestRow(rest_raw, rest_raw, tr("unseen"))
    : createRestRow(rest_raw, rest_processed);
  return [...rows, { ...rest, reported }];
}

/** @param {Step} step */
function barsText({ stages, detail }) {
  if (detail?.kind !== "forward") return "";
  return stages.length
    ? tr("Only the filters that were seen at work count here; the method may have done more.")
    : tr("The model's own [probability]; what the method did with it is unknown.");
}

/**
 * Rows of the recorded candidates of a step.
 * @param {Run} run
 * @param {Step} step
 * @param {number} chosen
 * @param {Context} ctx
 * @param {(id: number) => (() => void) | null} forkWith
 * @returns {CandidateRow[]}
 */
function candidateRows(run, step, chosen, ctx, forkWith) {
  const shown = run.shown[step.index].candidates;
  const rows = step.candidates.map(({ token_id: id, removed_by: removed }, i) => ({
    ...nameRow(run, id, chosen),
    raw: shown.raw[i],
    processed: shown.processed[i],
    removed,
    go: forkWith(id),
    why: ctx.ask ? () => ctx.ask?.({ step: step.index, token_id: id }) : null,
  }));
  return [...rows, createRestRow(shown.rest_raw, shown.rest_processed)];
}

/**
 * Rows of a beam search step: the candidates of the pool that continue the same text as a node.
 * @param {Run} run
 * @param {Step} step
 * @param {BeamNode} node
 * @param {Context} ctx
 * @returns {CandidateRow[]}
 */
function poolRows(run, step, node, ctx) {
  const { p, model, rest } = run.shown[step.index].beam_tree;
  /** @type {BeamDetail} */
  const { pool } = step.detail;
  const rows = pool.flatMap((other, i) => {
    if (other.parent_id !== node.parent_id || other.group !== node.group) return [];
    const { token_id, node_id } = other;
    return {
      ...nameRow(run, token_id, node.token_id),
      ...INACTIVE,
      raw: model[i],
      processed: p[i],
      why: ctx.ask ? () => ctx.ask?.({ step: step.index, token_id, node_id }) : null,
    };
  });
  const left = rest[pool.indexOf(node)];
  const { raw } = rows[0];
  return [...rows, createRestRow(raw === null ? null : left, left)];
}

/**
 * @param {Run} run
 * @param {Step} step
 * @param {{ node: BeamNode, path: BeamNode[] }} found
 * @param {Context} ctx
 * @returns {StepContent}
 */
function createNodeContent(run, step, { node, path }, ctx) {
  const before = path.slice(0, -1).map((other) => other.token_id);
  const name = before.length
    ? tr("Continuations of “{text}”. ", { text: tokensText(run, before).trimStart() })
    : tr("Continuations of the prompt. ");
  if (node.parent_id === run.shown[step.index].beam_tree.row)
    return { rows: candidateRows(run, step, node.token_id, ctx, () => null), words: [name] };
  const about = tr("Those of the step's pool; the record holds no others of this text.");
  return { rows: poolRows(run, step, node, ctx), words: [name, about] };
}

const UNSEEN_TEXT = tr("What decided this [step] was not seen.");
const NOT_WRITTEN_TEXT = tr("This step wrote nothing that is still in the text.");

/**
 * Rows of a step whose distribution was not seen: the
 * scores of its last token in the finished text.
 * @param {Run} run
 * @param {Step} step
 * @returns {StepContent}
 */
function createScoredContent(run, step) {
  const found = findFinalScore(run, step, step.emit.length - 1);
  if (!found)
    return { rows: [], words: renderTerms(step.emit.length ? UNSEEN_TEXT : NOT_WRITTEN_TEXT) };
  /**
   * @param {number} id
   * @param {number} p
   */
  const row = (id, p) => ({ ...INACTIVE, ...nameRow(run, id, found.id), raw: p, processed: p });
  const rows = found.top.map(([id, p]) => row(id, p));
  if (rows.every(({ on }) => !on)) rows.push(row(found.id, toProbability(found.logprob)));
  return {
    rows,
    words: [
      ...renderTerms(UNSEEN_TEXT),
      tr(" For the token in this place: {said}.", { said: finalScoreText(run, found) }),
    ],
  };
}

/**
 * Rows of the settings that the reader tries.
 * @param {Run} run
 * @param {Preview} preview
 * @param {(id: number) => (() => void) | null} forkWith
 * @returns {CandidateRow[]}
 */
const previewRows = (run, { rows, chosen, rest_own: own, rest_used: used }, forkWith) => [
  ...rows.map(({ token_id: id, own: raw, used: processed, removed }) => ({
    ...nameRow(run, id, chosen),
    raw,
    processed,
    removed,
    go: forkWith(id),
    why: null,
  })),
  createRestRow(own, used),
];

/**
 * What the picture of a step shows, as it was recorded or with the settings that the reader tries.
 * @param {Run} run
 * @param {Step} step
 * @param {Context} ctx
 * @returns {StepContent}
 */
export function createStepContent(run, step, ctx) {
  const found = findSelectedNode(run, step);
  if (found) return createNodeContent(run, step, found, ctx);
  if (step.detail?.kind === "served") {
    const { drawn, needle } = run.shown[step.index].candidates;
    return { rows: servedRows(run, step, findDecidedToken(step)), drawn, needle };
  }
  if (!step.candidates.length) return createScoredContent(run, step);
  const forks = ctx.fork && !run.model.is_encoder_decoder;
  /** @param {number} id */
  const forkWith = (id) =>
    forks && !run.eos_token_ids.includes(id)
      ? () => ctx.fork?.({ step: step.index, token_id: id })
      : null;
  const { drawn, needle } = run.shown[step.index].candidates;
  const words = renderTerms(`${severalTokensText(step)}${barsText(step)}`);
  const { preview } = ctx;
  if (preview?.step === step.index && preview.rows.length)
    return { rows: previewRows(run, preview, forkWith), words, drawn, needle: preview.needle };
  const rows = candidateRows(run, step, findDecidedToken(step), ctx, forkWith);
  return { rows, words, drawn, needle };
}
