// Drafts for a model, by the tokenizers of what is on this machine; each with the reason why it is offered.
import { el } from "../../visualizers/shared/dom.mjs";
import { said } from "../../visualizers/shared/said.mjs";
import { ask, connectedAsk } from "./ask.mjs";

/** @typedef {{ name: string, here: boolean, reason: string }} Draft */

/** Asks once for each model that is chosen, and says beside the chosen draft why it fits. */
export class Drafts {
  #asked = "";
  /** @type {Map<string, Draft>} */
  #found = new Map();

  /**
   * @param {string} strategy
   * @param {(names: string[]) => void} offer what to do with the names that were found
   */
  constructor(strategy, offer) {
    this.strategy = strategy;
    this.offer = offer;
    this.say = el("p", { class: "f-help f-pair", role: "status", hidden: true });
  }

  /**
   * @param {string} model
   * @param {() => string} chosen the draft that is chosen when the answer is there
   */
  async look(model, chosen) {
    if (!model || model === this.#asked) return this.tell(chosen());
    this.#asked = model;
    this.#found = new Map();
    this.tell(chosen());
    await connectedAsk;
    const answer = await ask({ action: "drafts", strategy: this.strategy, model });
    if (model !== this.#asked || answer.error) return;
    const { drafts, early_exit: exits } = answer;
    this.#found = new Map(drafts.map((draft) => [draft.name, draft]));
    if (drafts.length) this.offer(drafts.map(({ name }) => name));
    this.tell(chosen(), exits);
  }

  /**
   * @param {string} draft
   * @param {string | null} [more] what is said of the model itself
   */
  tell(draft, more = null) {
    const reason = more ?? this.#found.get(draft)?.reason ?? "";
    this.say.textContent = said(reason);
    this.say.hidden = !reason;
  }
}
