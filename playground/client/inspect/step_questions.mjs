// Questions about a step of a run. If the server does not know the run, its trace is sent along.
import { toTrace } from "../../../visualizers/shared/record.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { askServer } from "../shell/questions.mjs";

// An unreachable server sends no error, so a question needs a time limit.
const ANSWER_TIMEOUT_MS = 30000;
const NO_ANSWER = tr("The server does not answer, so nothing can be asked now.");

// Ids of runs that the server has dropped from memory.
const forgottenRuns = new Set();

/** Parts of a trace that no question needs, left out. */
export const NO_ENDING = {
  outputs: [],
  emitted: [],
  grammar: [],
  thinking: null,
  metrics: {},
  notes: [],
};

/**
 * Return the trace up to a step: full data for that step, only tokens and beam nodes before it.
 * @param {Run} run
 * @param {number} index
 */
function truncateTrace(run, index) {
  const steps = run.steps.slice(0, index + 1).map((step, i) => {
    if (i === index) return step;
    const { candidates: _, stages: __, ...bare } = step;
    return { ...bare, detail: step.detail?.kind === "beam" ? step.detail : null };
  });
  return { ...toTrace(run), steps, ...NO_ENDING };
}

/**
 * Ask the server about a step and resolve with the answer.
 * @param {Run} run
 * @param {{ action: string, step: number } & Record<string, any>} question
 */
export const askAboutStep = (run, question) =>
  askAboutRun(run, question, () => truncateTrace(run, question.step));

/**
 * Ask the server about a run; its trace is sent along if the server does not know it.
 * @param {Run} run
 * @param {{ action: string } & Record<string, any>} question
 * @param {() => object} makeTrace returns what the answer needs of the trace
 */
export async function askAboutRun(run, question, makeTrace) {
  if (!run.source && !forgottenRuns.has(run.id)) {
    const answer = await askServer({ ...question, run: run.id });
    if (!answer.forgotten) return answer;
    forgottenRuns.add(run.id);
  }
  return askServer({ ...question, trace: makeTrace() });
}

/**
 * Resolve with the answer, or with an error after 30 seconds without one.
 * @param {Promise<any>} answer
 * @returns {Promise<any>}
 */
export const withTimeout = (answer) =>
  Promise.race([
    answer,
    new Promise((done) => setTimeout(() => done({ error: NO_ANSWER }), ANSWER_TIMEOUT_MS)),
  ]);
