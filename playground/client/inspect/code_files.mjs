// The exported code of a run, which the server writes.
import { toTrace } from "../../../visualizers/shared/record.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { askServer } from "../shell/questions.mjs";

// An error whose message is shown to the visitor.
export class Refusal extends Error {}

/**
 * @param {string} sentence
 * @returns {never}
 */
export function throwRefusal(sentence) {
  throw new Refusal(sentence);
}

/**
 * Return a trace without steps: code and model comparison need only the request and the output.
 * @param {Run} run
 */
export function withoutSteps(run) {
  const ids = new Set([...run.prompt_ids, ...run.outputs.flatMap((o) => o.token_ids)]);
  const pieces = Object.fromEntries([...ids].map((id) => [id, run.pieces[id] ?? ""]));
  return { ...toTrace(run), steps: [], emitted: [], grammar: [], pieces };
}

/** @typedef {{ files: Record<string, string>, no_pipeline: string }} CodeFiles */

/**
 * @param {Run} run
 * @returns {Promise<CodeFiles>}
 */
export async function codeFilesOf(run) {
  const answer = await askServer({ action: "files", trace: withoutSteps(run) });
  if (answer.error) throwRefusal(said(answer.error));
  return answer;
}
