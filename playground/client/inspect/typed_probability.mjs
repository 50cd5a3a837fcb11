// The model's probability of a typed text at a step, fetched from the server for the guessing game.
import { askAboutStep, withTimeout } from "./step_questions.mjs";

/**
 * Fetch the probability of a typed text at a step: the server's figures, or an object with `error`.
 * @param {Run} run with its steps at least up to this one
 * @param {number} step
 * @param {string} text
 */
export async function fetchTextProbability(run, step, text) {
  const answer = await withTimeout(askAboutStep(run, { action: "odds", step, text }));
  return answer.odds ?? { error: answer.error };
}
