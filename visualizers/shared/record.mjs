// The record of a run as it grows: its steps, and the tokens of every text with what was seen of them.

export const emptyRecord = () => ({ steps: [], shown: [], tokens: [], texts: [] });

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
  list.length = step.keep;
  for (const id of step.emit) list.push({ id, step: step.index });
  step.emit.forEach((_, offset) => {
    Object.assign(list[step.keep + offset], chance(run, step, list, offset));
  });
  if (run.follow) run.selected = step.index;
}

/**
 * How probable a token was where it stands. The candidates of a step are those of the last token it
 * wrote; the tokens before that one have their probability from the draft's or the beams' record.
 * @param {Run} run
 * @param {Step} step
 */
export function chance(run, step, list, offset) {
  const detail = step.detail || {};
  if (detail.kind === "beam") return { p: null, ...onBeam(run, list, step.keep + offset) };
  const drafted = detail.kind === "draft" && detail.tokens[offset];
  if (drafted && drafted.status === "accepted") return { p: drafted.p, processed: true };
  const last = offset === step.emit.length - 1;
  const own = last && step.candidates.find((c) => c.token_id === list[step.keep + offset].id);
  return { p: own && own.raw_logprob !== null ? Math.exp(own.raw_logprob) : null };
}

/** @param {Run} run */
function onBeam(run, list, at) {
  for (const node of run.steps[list.length - 1].detail.pool) {
    const path = pathOf(run, node, list.length - 1);
    if (path.length === list.length && path.every((n, i) => n.token_id === list[i].id))
      return { p: Math.exp(path[at].logprob), processed: true };
  }
  return {};
}

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
 * What a file of the run holds.
 * @param {Run} run
 */
export function trace(run) {
  const whole = { schema: "decoding-trace/1" };
  for (const key of run.fields) whole[key] = run[key];
  return whole;
}
