// Questions about a step of a run: a server that does not know the run is sent what it needs of it.
import { trace } from "../../visualizers/shared/record.mjs";
import { tr } from "../../visualizers/shared/tr.mjs";
import { ask } from "./ask.mjs";

// A server that is gone answers nothing at all.
const SILENCE_MS = 30000;
const SILENT = tr("The server does not answer, so nothing can be asked now.");

// Runs that the server no longer remembers.
const forgotten = new Set();

/**
 * What the server needs of a run it does not remember: its text up to the step, and the searches' nodes.
 * @param {Run} run
 * @param {number} index
 */
function upTo(run, index) {
  const steps = run.steps.slice(0, index + 1).map((step, i) => {
    if (i === index) return step;
    const { candidates: _, stages: __, ...bare } = step;
    return { ...bare, detail: step.detail?.kind === "beam" ? step.detail : null };
  });
  return { ...trace(run), steps, outputs: [], emitted: [], metrics: {}, notes: [] };
}

/**
 * @param {Run} run
 * @param {{ action: string, step: number } & Record<string, any>} question
 */
export async function askAbout(run, question) {
  if (!run.source && !forgotten.has(run.id)) {
    const answer = await ask({ ...question, run: run.id });
    if (!answer.forgotten) return answer;
    forgotten.add(run.id);
  }
  return ask({ ...question, trace: upTo(run, question.step) });
}

/** An answer, or that there is none. */
export const timed = (answer) =>
  Promise.race([
    answer,
    new Promise((done) => setTimeout(() => done({ error: SILENT }), SILENCE_MS)),
  ]);
