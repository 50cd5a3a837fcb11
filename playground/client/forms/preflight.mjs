// Facts about a model and its cost, shown under the model field before anything is downloaded.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { StoppableQuestion } from "../jobs/question.mjs";
import { askWhenReady } from "../shell/questions.mjs";
import { saveMediaInputs } from "./media_inputs.mjs";

const ASKING = tr("Asking…");

/** The button that asks about the named model, and the facts it shows. */
export class Preflight {
  #question = new StoppableQuestion();

  /**
   * @param {() => Record<string, any>} asked the model and the form's settings for its weights
   * @param {() => void} learned called when the model's inputs are known
   */
  constructor(asked, learned = () => {}) {
    this.asked = asked;
    this.learned = learned;
    this.say = el("p", { class: "f-help pf-status", role: "status" });
    this.facts = el("dl", { class: "pf-facts" });
    this.facts.hidden = true;
    const go = createButton(tr("Model details"), () => this.look(), { class: "dp-btn pf-go" });
    this.box = el("div", { class: "pf-box" }, go, this.say, this.facts);
  }

  // Clear the facts when the model's name changes.
  forget() {
    this.#question.forget();
    this.#showFacts("");
  }

  async look() {
    const asked = this.asked();
    this.#question.forget();
    if (!asked.model) return this.#showFacts(tr("Name a model first."));
    this.#showFacts(ASKING);
    const found = await this.#question.ask(async () => {
      const answer = await askWhenReady({ action: "preflight", ...asked });
      const { error, told, notes, ...takes } = answer;
      if (!error) saveMediaInputs(asked.model, takes);
      return answer;
    });
    if (!found) return;
    this.learned();
    if (found.error) this.#showFacts(said(found.error));
    else this.#showFacts(found.notes.map(said).join(" "), found.told);
  }

  /**
   * @param {string} text
   * @param {[string, string][]} [facts]
   */
  #showFacts(text, facts = []) {
    this.say.textContent = text;
    this.facts.replaceChildren(
      ...facts.flatMap(([subject, fact]) => [
        el("dt", {}, said(subject)),
        el("dd", {}, said(fact)),
      ]),
    );
    this.facts.hidden = !facts.length;
  }
}
