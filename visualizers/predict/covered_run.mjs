// A copy of a run with its first steps only. Stages draw it while the visitor guesses, so that no
// view contains the next token.
import { addStep, createEmptyRecord } from "../shared/record.mjs";
import { allSteps } from "./game.mjs";

/**
 * A copy of a run without steps; ``grow`` adds them.
 * @param {Run} run
 * @returns {Run}
 */
export const createCoveredRun = (run) => ({
  ...run,
  ...createEmptyRecord(),
  source: undefined,
  outputs: [],
  notes: [],
  emitted: [],
  grammar: [],
  thinking: null,
  timing: undefined,
  metrics: undefined,
  parting: null,
  // The hint of a preset may give the continuation away.
  shows: "",
  covered: true,
  selected: null,
  node: null,
  follow: true,
});

/**
 * Add steps of a run up to `count`, and select the newest one of an output.
 * @param {Run} cover
 * @param {Run} run the full run
 * @param {number} count
 * @param {number} sequence
 */
export function showSteps(cover, run, count, sequence) {
  const { steps, shown } = allSteps(run);
  const before = cover.steps.length;
  for (let i = before; i < count; i++) addStep(cover, steps[i], shown[i]);
  const status = run.status === "running" ? "running" : "predicting";
  const { pieces, source, error, again } = /** @type {any} */ (run);
  Object.assign(cover, { pieces, error, again, status });
  // Questions to a server that lacks the run send its
  // trace, which must hold the visible steps only.
  cover.source = source && { trace: { ...source.trace, steps: cover.steps }, shown: cover.shown };
  if (cover.steps.length === before) return;
  cover.node = null;
  const newest = cover.steps.findLastIndex((step) => step.sequence === sequence);
  cover.selected = newest < 0 ? cover.steps.length - 1 : newest;
}
