// Questions to the server about a step under other settings.
import { toTrace } from "../../../visualizers/shared/record.mjs";
import { tokenText } from "../../../visualizers/shared/text.mjs";
import { askWhenReady } from "../shell/questions.mjs";
import { NO_ENDING, withTimeout } from "./step_questions.mjs";

// Ids of runs whose logits the server has dropped.
const forgottenRuns = new Set();

/**
 * Ask about a step of a run; send the run along if the server no longer has it.
 * @param {Run} run
 * @param {{ action: "what_if" | "what_if_first" | "step_scores", step: number, press: string,
 *   params?: Record<string, any>, off?: string[], order?: string[] }} question
 */
export async function askWhatIf(run, question) {
  if (!run.source && !forgottenRuns.has(run.id)) {
    const answer = await withTimeout(askWhenReady({ ...question, run: run.id }));
    if (!answer.forgotten) return answer;
    forgottenRuns.add(run.id);
  }
  const trace = slimTrace(run, question.step);
  const answer = await withTimeout(askWhenReady({ ...question, run: run.id, trace }));
  return answer.forgotten ? { error: answer.forgotten } : answer;
}

/**
 * Add the texts of tokens that a run's record lacks.
 * @param {Run} run
 * @param {Record<string, string>} [pieces] by token id
 */
export function addPieces(run, pieces) {
  run.more_pieces = { ...run.more_pieces, ...pieces };
}

/**
 * Reduce a run that the server no longer has to all ids and the candidates of one step.
 * @param {Run} run
 * @param {number} index
 */
function slimTrace(run, index) {
  const all = run.source?.trace.steps ?? run.steps;
  const steps = all.map(({ index: i, keep, emit, sequence, candidates, logsumexp, entropy }) => ({
    ...{ index: i, keep, emit, sequence },
    ...(i === index ? { candidates, logsumexp, entropy } : {}),
  }));
  const ids = [...run.prompt_ids, ...steps.flatMap((s) => s.emit)];
  ids.push(...(all[index].candidates ?? []).map((c) => c.token_id));
  const pieces = Object.fromEntries([...new Set(ids)].map((id) => [id, tokenText(run, id)]));
  return {
    ...toTrace(run),
    steps,
    pieces,
    ...NO_ENDING,
  };
}
