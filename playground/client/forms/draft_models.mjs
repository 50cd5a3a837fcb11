// Draft models that fit a model: installed models with a compatible tokenizer, each with a reason.
import { el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { askWhenReady } from "../shell/questions.mjs";

/** @typedef {{ name: string, here: boolean, reason: string }} Draft */

/** Asks once for each chosen model, and shows why the chosen draft model fits it. */
export class DraftFinder {
  #askedModel = "";
  /** @type {Map<string, Draft>} */
  #drafts = new Map();

  /**
   * @param {string} strategy
   * @param {(names: string[]) => void} offer called with the names that were found
   */
  constructor(strategy, offer) {
    this.strategy = strategy;
    this.offer = offer;
    this.say = el("p", { class: "f-help f-pair", role: "status", hidden: true });
  }

  /**
   * Look for drafts of a model, and show the reason for the chosen one.
   * @param {string} model
   * @param {() => string} chosen returns the draft that is chosen when the answer arrives
   */
  async look(model, chosen) {
    if (!model || model === this.#askedModel) return this.tell(chosen());
    this.#askedModel = model;
    this.#drafts = new Map();
    this.tell(chosen());
    const answer = await askWhenReady({ action: "drafts", strategy: this.strategy, model });
    if (model !== this.#askedModel || answer.error) return;
    /** @type {{ drafts: any[], early_exit: any }} */
    const { drafts, early_exit: exits } = answer;
    this.#drafts = new Map(drafts.map((draft) => [draft.name, draft]));
    if (drafts.length) this.offer(drafts.map(({ name }) => name));
    this.tell(chosen(), exits);
  }

  /**
   * Show why a draft fits.
   * @param {string} draft
   * @param {string | null} [more] a sentence about the model, shown instead
   */
  tell(draft, more = null) {
    const reason = more ?? this.#drafts.get(draft)?.reason ?? "";
    this.say.textContent = said(reason);
    this.say.hidden = !reason;
  }
}
