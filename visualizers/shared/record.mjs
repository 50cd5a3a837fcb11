// The record of a run as it grows: its steps, and the tokens of every text with what its summary says of them.

export const emptyRecord = () => ({ steps: [], shown: [], tokens: [], texts: [] });

// What stands in for the header of a run that was refused where nothing had been drawn.
export const NOTHING = {
  status: "failed",
  config: {},
  model: {},
  prompt: null,
  prompt_ids: [],
  eos_token_ids: [],
  special_token_ids: [],
};

/**
 * Whether a run was refused before there was anything of it.
 * @param {Run | undefined} run
 */
export const isNothing = (run) => run?.model === NOTHING.model;

/**
 * @param {Run} run
 * @param {Step} step
 * @param {Shown} shown what its pictures show of it
 */
export function addStep(run, step, shown) {
  run.steps.push(step);
  run.shown.push(shown);
  if (!run.tokens[step.sequence]) run.tokens[step.sequence] = [];
  const list = run.tokens[step.sequence];
  const { p, used, bits } = shown.text;
  list.length = step.keep;
  step.emit.forEach((id, i) => {
    list.push({ id, step: step.index, p: p[i], used: used[i], bits: bits[i] });
  });
  if (run.follow) run.selected = step.index;
}

/**
 * Which of the tokens that a step wrote its candidates are of: the last, and where it was seen from outside
 * the first. -1 where it wrote none.
 * @param {Step} step
 */
export const ownPlace = (step) =>
  step.detail?.kind === "forward" && step.emit.length ? 0 : step.emit.length - 1;

/** @param {Step} step */
export const ownToken = (step) => step.emit[ownPlace(step)];

/**
 * The text that is looked at: that of the selected step.
 * @param {Run} run
 */
export const sequenceOf = (run) => run.steps[run.selected ?? -1]?.sequence ?? 0;

/**
 * Whether a run has more than one text.
 * @param {Run} run
 */
export const severalOf = (run) =>
  run.tokens.length > 1 ||
  Number(run.config.num_return_sequences) > 1 ||
  Number(run.config.num_beam_groups) > 1;

/**
 * The nodes from the first step of a search down to one of them.
 * @param {Run} run
 */
export function pathOf(run, node, depth) {
  const path = [];
  for (let at = node; at; ) {
    path.unshift(at);
    depth -= 1;
    const above = at.parent_id;
    at = depth < 0 ? null : run.steps[depth].detail.pool.find((n) => n.node_id === above);
  }
  return path;
}

/**
 * The node of a search that is looked at, with the text it ends: that which was chosen, else that of
 * the leading text, else the step's best. Null where a step is none of a search's.
 * @param {Run} run
 * @param {Step} step
 */
export function nodeOf(run, step) {
  const tree = run.shown[step.index].beam_tree;
  if (step.detail?.kind !== "beam" || !tree) return null;
  const { pool } = step.detail;
  const node =
    pool.find((n) => n.node_id === run.node) ??
    leadingOf(run)[step.index] ??
    pool.find((n) => n.parent_id === tree.row);
  return { node, path: pathOf(run, node, step.index) };
}

/**
 * The nodes of the text that leads, or that has won.
 * @param {Run} run
 */
function leadingOf(run) {
  const { best } = run.shown.at(-1).beam_tree;
  for (let depth = run.steps.length - 1; depth >= 0; depth--) {
    const end = run.steps[depth].detail.pool.find((n) => n.node_id === best);
    if (end) return pathOf(run, end, depth);
  }
  return [];
}

/**
 * A run as its record has it.
 * @param {Run} run
 */
export function trace(run) {
  const whole = { schema: "decoding-trace/1" };
  for (const key of run.fields) whole[key] = run[key];
  return whole;
}

const isRecord = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

const each = (record, make) =>
  Object.fromEntries(Object.keys(record).map((name) => [name, make(name)]));

// Lists of records as columns, which are half as long; `engine.trace.columns` reads them.
function inColumns(value) {
  if (isRecord(value)) return each(value, (name) => inColumns(value[name]));
  if (!Array.isArray(value)) return value;
  if (value.length && value.every(isRecord))
    return each(value[0], (name) => inColumns(value.map((item) => item[name])));
  return value.map(inColumns);
}

/**
 * What a file of the run says.
 * @param {Run} run
 */
export const fileOf = (run) =>
  JSON.stringify({
    ...trace(run),
    schema: "decoding-trace/2",
    steps: run.steps.map(inColumns),
  });
