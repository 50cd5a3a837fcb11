// Fetches what decides a step, so that the page can decide it again without further questions.
import { StoppableQuestion } from "../jobs/question.mjs";
import { createStepScores } from "./decide_step.mjs";
import { askWhatIf } from "./what_if_questions.mjs";

/** @import { StepScores } from "./decide_step.mjs" */

/**
 * Read an answer of the server; null if the page cannot decide the step.
 * @param {any} answer
 * @returns {StepScores | null}
 */
export function readStepScores({ scores, logits, noise, removed, pieces }) {
  if (!scores) return null;
  const after = decodeFloats(scores);
  const own = logits ? decodeFloats(logits) : after;
  return createStepScores(own, after, noise && decodeFloats(noise), { removed, pieces });
}

/**
 * Decode float32 numbers in base64, least significant byte first.
 * @param {string} text
 */
function decodeFloats(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
}

/** The scores of one step at a time; the newest step replaces the one before. */
export class StepScoresCache {
  #key = "";
  /** @type {StepScores | null | undefined} undefined until the answer is there */
  #found;
  #question = new StoppableQuestion({ latestOnly: true });

  /**
   * Return the scores of a step: null if the page cannot decide it, undefined while they are
   * fetched.
   * @param {Run} run
   * @param {number} step
   * @param {() => void} fetched called when an answer is there
   */
  get(run, step, fetched) {
    const key = `${run.id}:${step}`;
    if (key !== this.#key) this.#fetch(run, step, key, fetched);
    return this.#found;
  }

  /**
   * @param {Run} run
   * @param {number} step
   * @param {string} key
   * @param {() => void} fetched
   */
  async #fetch(run, step, key, fetched) {
    this.#key = key;
    this.#found = undefined;
    const answer = await this.#question.ask((press) =>
      askWhatIf(run, { action: "step_scores", step, press }),
    );
    if (key !== this.#key) return;
    this.#found = answer && !answer.error ? readStepScores(answer) : null;
    fetched();
    // After an error the next move of a dial asks again.
    if ((!answer || answer.error) && key === this.#key) this.#key = "";
  }
}
