// A question to the server whose answer takes a while: it can be stopped, and a newer one replaces it.
import { randomId } from "../shell/ids.mjs";
import { askServer } from "../shell/questions.mjs";

export class StoppableQuestion {
  #id = randomId();
  #latestOnly;
  /** @type {object | null} marks the open question */
  #open = null;

  /**
   * @param {{ latestOnly?: boolean }} [about] latestOnly: whether the server itself stops the earlier
   *   question of this id
   */
  constructor({ latestOnly = false } = {}) {
    this.#latestOnly = latestOnly;
  }

  get isOpen() {
    return this.#open !== null;
  }

  /**
   * Ask, and resolve with the answer; with null if the question was replaced or forgotten.
   * @param {(press: string) => Promise<any>} send sends the question under an id
   */
  async ask(send) {
    const mine = {};
    this.#open = mine;
    // A stop that comes late must not reach the next question.
    if (!this.#latestOnly) this.#id = randomId();
    try {
      const answer = await send(this.#id);
      return mine === this.#open && !answer.superseded ? answer : null;
    } finally {
      if (mine === this.#open) this.#open = null;
    }
  }

  /** Ask the server to stop; the answer then says so. */
  stop() {
    if (this.#open) askServer({ action: "stop", press: this.#id });
  }

  /** Drop the answer of the open question, if any. */
  forget() {
    this.#open = null;
  }
}
