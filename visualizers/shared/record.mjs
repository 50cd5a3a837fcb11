// The record of a run as it grows: its steps, their summaries and the tokens of every output.

import { collectTemplates } from "./server_text.mjs";

export const createEmptyRecord = () => ({ steps: [], shown: [], tokens: [], texts: [] });

// Header of a run that was refused before its first message.
export const REFUSED_RUN = {
  status: "failed",
  config: {},
  model: {},
  prompt: null,
  prompt_ids: [],
  eos_token_ids: [],
  special_token_ids: [],
};

/**
 * Whether a run was refused before its first message.
 * @param {Run | undefined} run
 */
export const isRefusedRun = (run) => run?.model === REFUSED_RUN.model;

/**
 * Whether a server computed the run's model, so that nothing can be asked of it here.
 * @param {Run | null | undefined} run
 */
export const isOnServer = (run) => Boolean(run?.served || run?.model?.host);

/**
 * @param {Run} run
 * @param {Step} step
 * @param {Shown} shown summaries of the step, by view
 */
export function addStep(run, step, shown) {
  run.steps.push(step);
  run.shown.push(shown);
  if (!run.tokens[step.sequence]) run.tokens[step.sequence] = [];
  const list = run.tokens[step.sequence];
  const { p, used, bits } = shown.text;
  list.length = step.keep;
  step.emit.forEach((id, i) => {
    // Masked diffusion may have written a word in an earlier pass than the one that made it visible.
    const pass = shown.filling?.passes[step.keep + i];
    const index = pass ? pass - 1 : step.index;
    list.push({ id, step: index, p: p[i], used: used[i], bits: bits[i] });
  });
  if (run.follow) Object.assign(run, { selected: step.index, offset: null });
}

/**
 * Index of the emitted token that the step's candidates belong to: the last one, or the first one
 * in a step of a custom method. -1 if the step emitted none.
 * @param {Step} step
 */
export function findDecidedIndex(step) {
  // A pass of masked diffusion decides words anywhere in the text.
  if (step.detail?.kind === "fill") return -1;
  return step.detail?.kind === "forward" && step.emit.length ? 0 : step.emit.length - 1;
}

/** @param {Step} step */
export const findDecidedToken = (step) => step.emit[findDecidedIndex(step)];

/**
 * A word of a text: the step that decided it, and its place among the tokens of that step. `offset`
 * is null in a beam search, where a step may rewrite the whole leading text, and the place in the
 * text in masked diffusion, where a step writes anywhere.
 * @typedef {{ step: number, offset: number | null }} Word
 */

/**
 * The words of all outputs, in the order of the text. A word is a token.
 * @param {Run} run
 * @returns {Word[]}
 */
export const listWords = (run) =>
  run.tokens.flatMap((tokens) => tokens.map((token, at) => findWord(run, token.step, at)));

/**
 * The word at a place of a text.
 * @param {Run} run
 * @param {number} index of the step that wrote it
 * @param {number} at
 * @returns {Word}
 */
export function findWord(run, index, at) {
  const step = run.steps[index];
  // The steps of a beam search are the depths of its tree.
  if (step.detail?.kind === "beam") return { step: at, offset: null };
  return { step: index, offset: step.detail?.kind === "fill" ? at : at - step.keep };
}

/**
 * Offset of the selected token among those of the selected step.
 * @param {Run} run
 * @param {Step} step
 */
export const findSelectedOffset = (run, step) => run.offset ?? findDecidedIndex(step);

/**
 * @param {Run} run
 * @param {Step} step
 */
export function findSelectedToken(run, step) {
  const at = findSelectedOffset(run, step);
  return run.shown[step.index]?.filling?.ids[at] ?? step.emit[at];
}

/**
 * What a question to the server is about at the selected step: a node of a beam search, or a place in
 * a round of drafting other than that of its last token.
 * @param {Run} run
 * @param {Step} step
 * @returns {{ node_id?: number, at?: number }}
 */
export function findAskedPlace(run, step) {
  const found = findSelectedNode(run, step);
  if (found) return { node_id: found.node.node_id };
  const at = findSelectedOffset(run, step);
  return step.detail?.kind === "draft" && at !== findDecidedIndex(step) ? { at } : {};
}

/**
 * Index of the selected word in `listWords`, -1 if the text does not have the words of the selected step.
 * @param {Run} run
 */
export function findSelectedWord(run) {
  const step = run.steps[run.selected ?? -1];
  if (!step) return -1;
  const offset = findSelectedOffset(run, step);
  return listWords(run).findIndex(
    (word) => word.step === step.index && (word.offset ?? offset) === offset,
  );
}

/**
 * Select a word by its index; an index before the first or after the last one selects that.
 * @param {Run} run
 * @param {Context} ctx
 * @param {number} index
 */
export function selectWord(run, ctx, index) {
  const words = listWords(run);
  const word = words[Math.max(0, Math.min(words.length - 1, index))];
  if (word) ctx.select(word.step, undefined, word.offset);
}

/**
 * Select the word before or after the selected one. From a step without a word in the text, those
 * are the nearest ones.
 * @param {Run} run
 * @param {Context} ctx
 * @param {number} distance
 */
export function moveWord(run, ctx, distance) {
  const at = findSelectedWord(run);
  if (at >= 0) return selectWord(run, ctx, at + distance);
  const before = listWords(run).findLastIndex(({ step }) => step < (run.selected ?? 0));
  selectWord(run, ctx, distance < 0 ? before + 1 + distance : before + distance);
}

/**
 * Output of the selected step.
 * @param {Run} run
 */
export const findSelectedSequence = (run) => run.steps[run.selected ?? -1]?.sequence ?? 0;

/**
 * Whether a run has more than one output.
 * @param {Run} run
 */
export const hasSeveralOutputs = (run) =>
  run.tokens.length > 1 ||
  Number(run.config.num_return_sequences) > 1 ||
  Number(run.config.num_beam_groups) > 1;

/**
 * @param {Step} step of a beam search
 * @returns {BeamNode[]}
 */
export const beamPool = (step) => step.detail.pool;

/**
 * The nodes from the first step of a beam search to a node.
 * @param {Run} run
 * @param {BeamNode | undefined} node
 * @param {number} depth
 */
export function beamPath(run, node, depth) {
  const path = [];
  for (let at = node; at; ) {
    path.unshift(at);
    depth -= 1;
    const above = at.parent_id;
    at = depth < 0 ? undefined : beamPool(run.steps[depth]).find((n) => n.node_id === above);
  }
  return path;
}

/**
 * The selected node of a beam search step and its path. It is the chosen node, else the node of the
 * leading text, else the node that the step's candidates belong to. Null for other steps.
 * @param {Run} run
 * @param {Step} step
 */
export function findSelectedNode(run, step) {
  const tree = run.shown[step.index].beam_tree;
  if (step.detail?.kind !== "beam" || !tree) return null;
  const pool = beamPool(step);
  const node =
    pool.find((n) => n.node_id === run.node) ??
    findLeadingPath(run)[step.index] ??
    pool.find((n) => n.parent_id === tree.row);
  return node ? { node, path: beamPath(run, node, step.index) } : null;
}

/**
 * The nodes of the leading text, or of the winner.
 * @param {Run} run
 */
function findLeadingPath(run) {
  const best = run.shown.at(-1)?.beam_tree.best;
  for (let depth = run.steps.length - 1; depth >= 0; depth--) {
    const end = beamPool(run.steps[depth]).find((n) => n.node_id === best);
    if (end) return beamPath(run, end, depth);
  }
  return [];
}

/**
 * The trace of a run, without the fields that the page added.
 * @param {Run} run
 */
export function toTrace(run) {
  const fields = run.fields.map((key) => [key, run[key]]);
  return { schema: "decoding-trace/1", ...Object.fromEntries(fields) };
}

/** @param {unknown} value */
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/**
 * @param {object} record
 * @param {(name: string) => unknown} make
 */
const mapValues = (record, make) =>
  Object.fromEntries(Object.keys(record).map((name) => [name, make(name)]));

/**
 * Turn lists of records into columns, which halves the file. `engine.trace.columns` reads them.
 * @param {any} value
 * @returns {any}
 */
function toColumns(value) {
  if (isObject(value)) return mapValues(value, (name) => toColumns(value[name]));
  if (!Array.isArray(value)) return value;
  if (value.length && value.every(isObject))
    return mapValues(value[0], (name) => toColumns(value.map((item) => item[name])));
  return value.map(toColumns);
}

/**
 * The trace of a run as JSON in the columnar schema.
 * @param {Run} run
 */
export function toTraceJson(run) {
  const trace = toTrace(run);
  const templates = collectTemplates(trace);
  return JSON.stringify({
    ...trace,
    schema: "decoding-trace/2",
    steps: run.steps.map(toColumns),
    ...(Object.keys(templates).length ? { templates } : {}),
  });
}
