// The record of a run as it grows: its steps, and the tokens of every text with what its summary says of them.

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
  const { p, processed, bits } = shown.text;
  list.length = step.keep;
  step.emit.forEach((id, i) => {
    list.push({ id, step: step.index, p: p[i], processed: processed[i], bits: bits[i] });
  });
  if (run.follow) run.selected = step.index;
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
