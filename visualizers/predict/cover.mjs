// A run as it was before a step: what the views of a stage draw while somebody guesses, so that nothing of
// what comes next is anywhere among them.
import { addStep, emptyRecord } from "../shared/record.mjs";
import { wholeOf } from "./game.mjs";

/**
 * A run of which nothing is seen yet; `grow` shows more of it.
 * @param {Run} run
 * @returns {Run}
 */
export const covered = (run) => ({
  ...run,
  ...emptyRecord(),
  source: undefined,
  outputs: [],
  notes: [],
  emitted: [],
  timing: undefined,
  metrics: undefined,
  parting: null,
  // What to look at may tell how it goes on.
  shows: "",
  selected: null,
  node: null,
  follow: true,
});

/**
 * Show so many steps of a run, and look at the newest one of an output.
 * @param {Run} cover
 * @param {Run} run what it covers
 * @param {number} count
 * @param {number} sequence
 */
export function grow(cover, run, count, sequence) {
  const { steps, shown } = wholeOf(run);
  const before = cover.steps.length;
  for (let i = before; i < count; i++) addStep(cover, steps[i], shown[i]);
  const status = run.status === "running" ? "running" : "predicting";
  const { pieces, source, error, again } = /** @type {any} */ (run);
  Object.assign(cover, { pieces, error, again, status });
  // Its server is asked with the steps that are seen, where it does not know the run.
  cover.source = source && { trace: { ...source.trace, steps: cover.steps }, shown: cover.shown };
  if (cover.steps.length === before) return;
  cover.node = null;
  const newest = cover.steps.findLastIndex((step) => step.sequence === sequence);
  cover.selected = newest < 0 ? cover.steps.length - 1 : newest;
}
