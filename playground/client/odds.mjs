// What the model gave to a typed text at a step, asked of the server for whoever guesses.
import { askAbout, timed } from "./asked.mjs";

/**
 * @param {Run} run as far as its steps may be needed
 * @param {number} step
 * @param {string} text
 */
export async function oddsOf(run, step, text) {
  const answer = await timed(askAbout(run, { action: "odds", step, text }));
  return answer.odds ?? { error: answer.error };
}
