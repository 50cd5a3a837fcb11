// Guessing through a run: which step is to be guessed, what may be seen of the run, and what was guessed.
import { ownPlace, ownToken, sequenceOf } from "../shared/record.mjs";
import { covered, grow } from "./cover.mjs";
import { nextOf, seenBefore, wholeOf } from "./game.mjs";

/** @typedef {import("./game.mjs").Guess} Guess */

/**
 * A guess as it was made: what it is called, and what is known of it.
 * @typedef {object} Said
 * @property {string} name
 * @property {number} [token_id] undefined where only the model's tokenizer could tell
 * @property {number | null} [logprob] undefined where nobody could tell
 * @property {number | null} [most] no more than this, where that is all that is known
 * @property {number} [rank]
 * @property {string} [more] what else is to be said of it
 */

export class Rounds {
  /** @type {"waiting" | "guess" | "shown" | "over"} */
  phase = "waiting";
  /** @type {number | null} the step that is guessed, or that was shown last */
  index = null;
  /** @type {Map<string, number>} why steps before it were passed over */
  passed = new Map();
  /** @type {Guess[]} */
  guesses = [];
  /** @type {Said | null} the guess of the step that is shown */
  said = null;
  #from;

  /** @param {Run} run what a player has shown of it already is not guessed */
  constructor(run) {
    this.run = run;
    this.sequence = sequenceOf(run);
    this.#from = run.status === "paused" ? run.steps.length : 0;
    this.cover = covered(run);
  }

  get whole() {
    return wholeOf(this.run);
  }

  get step() {
    return this.whole.steps[this.index];
  }

  /** What the model gave to the token that was written. */
  get written() {
    const own = ownToken(this.step);
    return this.step.candidates.find((c) => c.token_id === own);
  }

  /** The tokens of the text before the one that is guessed: what stands already, and what this step put first. */
  get before() {
    const tokens = this.cover.tokens[this.sequence] ?? [];
    const prompt = this.run.model.is_encoder_decoder ? [] : this.run.prompt_ids;
    return {
      text: [...prompt, ...tokens.map(({ id }) => id)],
      accepted: this.step.emit.slice(0, Math.max(0, ownPlace(this.step))),
    };
  }

  /** The run as far as it may be seen now; a run that goes on may have come to a step that was waited for. */
  look() {
    if (this.phase === "waiting") this.#seek();
    grow(this.cover, this.run, this.#seen(), this.sequence);
    return this.cover;
  }

  #seek() {
    const { index, passed } = nextOf(this.whole, this.sequence, this.#from);
    this.passed = passed;
    if (index !== null) Object.assign(this, { index, phase: "guess" });
    else if (this.run.status !== "running") this.phase = "over";
  }

  #seen() {
    if (this.phase === "guess") return seenBefore(this.whole.steps, this.index);
    return this.phase === "shown" ? this.index + 1 : this.#from;
  }

  /**
   * Show the step.
   * @param {Said | null} said null for no guess
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
