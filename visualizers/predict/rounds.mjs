// State of the guessing game: the step to guess, the visible part of the run, and all guesses.
import { findDecidedIndex, findDecidedToken, findSelectedSequence } from "../shared/record.mjs";
import { createCoveredRun, showSteps } from "./covered_run.mjs";
import { allSteps, countVisibleSteps, findNextStep } from "./game.mjs";

/** @typedef {import("./game.mjs").Guess} Guess */

/**
 * A guess of the visitor.
 * @typedef {object} Said
 * @property {string} name
 * @property {number} [token_id] undefined if only the model's tokenizer knows it
 * @property {number | null} [logprob] undefined if unknown
 * @property {number | null} [most] upper bound of an unknown logprob
 * @property {number} [rank]
 * @property {string} [more] a further sentence
 */

export class Rounds {
  /** @type {"waiting" | "guess" | "shown" | "over"} */
  phase = "waiting";
  /** Index of the step that is guessed or that was shown last. */
  index = -1;
  /** @type {Map<string, number>} reason -> number of steps that were skipped */
  passed = new Map();
  /** @type {Guess[]} */
  guesses = [];
  /** @type {Said | null} guess of the shown step */
  said = null;
  #from;

  /** @param {Run} run steps that a player has already shown are not guessed */
  constructor(run) {
    this.run = run;
    this.sequence = findSelectedSequence(run);
    this.#from = run.status === "paused" ? run.steps.length : 0;
    this.cover = createCoveredRun(run);
  }

  get whole() {
    return allSteps(this.run);
  }

  get step() {
    return this.whole.steps[this.index];
  }

  /** The candidate of the token that was written. Every step that can be guessed has one. */
  get written() {
    const own = findDecidedToken(this.step);
    const found = this.step.candidates.find((c) => c.token_id === own);
    return /** @type {Candidate} */ (found);
  }

  /**
   * Ids of the text before the guessed token, and of the
   * tokens that the same step accepted before it.
   */
  get before() {
    const tokens = this.cover.tokens[this.sequence] ?? [];
    const prompt = this.run.model.is_encoder_decoder ? [] : this.run.prompt_ids;
    return {
      text: [...prompt, ...tokens.map(({ id }) => id)],
      accepted: this.step.emit.slice(0, Math.max(0, findDecidedIndex(this.step))),
    };
  }

  /** The visible part of the run. A growing run may by now contain the step that was waited for. */
  look() {
    if (this.phase === "waiting") this.#findStep();
    showSteps(this.cover, this.run, this.#visibleStepCount(), this.sequence);
    return this.cover;
  }

  #findStep() {
    const { index, passed } = findNextStep(this.whole, this.sequence, this.#from);
    this.passed = passed;
    if (index !== null) Object.assign(this, { index, phase: "guess" });
    else if (this.run.status !== "running") this.phase = "over";
  }

  #visibleStepCount() {
    if (this.phase === "guess") return countVisibleSteps(this.whole.steps, this.index);
    return this.phase === "shown" ? this.index + 1 : this.#from;
  }

  /**
   * Show the step.
   * @param {Said | null} said the guess, null for none
   */
  reveal(said) {
    const { token_id: id, raw_logprob: written } = this.written;
    this.said = said;
    this.phase = "shown";
    if (said) this.guesses.push({ logprob: said.logprob, written, right: said.token_id === id });
  }

  next() {
    this.#from = this.index + 1;
    this.phase = "waiting";
  }
}
