// Compares a run with another model: the server scores the run's text with both.
import { createServerComparison } from "../../../visualizers/beside/server.mjs";
import { createModelComparison } from "../../../visualizers/beside/view.mjs";
import { createButton, el, saveAs } from "../../../visualizers/shared/dom.mjs";
import { toTrace } from "../../../visualizers/shared/record.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { formatCount } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { Form } from "../forms/form.mjs";
import { ModelPicker } from "../forms/model_picker.mjs";
import { StoppableQuestion } from "../jobs/question.mjs";
import { askServer } from "../shell/questions.mjs";
import { getDeclaration } from "../shell/spec.mjs";
import { withoutSteps } from "./code_files.mjs";

const ABOUT = tr(
  "Another model with the same tokenizer reads this text, or the same one with fewer bits. See how far its distribution is off at every token.",
);
const ABOUT_SERVER = tr(
  "A model here reads the server’s text. See how far its distribution is off at every token. The server lists a part of its distribution, so the answer lies between two bounds.",
);
const READING = tr("Both models read the text, then each writes greedily…");
const READING_HERE = tr("The model here reads the text…");

const MODEL_ROLES = ["target", "draft", "foreign", "seq2seq"];

/** @typedef {{ csv: string } & Record<string, any>} Compared the server's answer */

/** @param {number} n tokens */
const doneSentence = (n) =>
  n === 1 ? tr("Done: 1 token.") : tr("Done: {n} tokens.", { n: formatCount(n) });

let instanceCount = 0;

class ModelComparison {
  /** @type {Run | null} */
  #run = null;
  #runId = "";
  #question = new StoppableQuestion();
  /** @type {Compared | null} */
  #found = null;
  /** @type {ModelPicker | null} */
  #models = null;
  /** @type {Form | null} */
  #weights = null;

  /**
   * @param {HTMLElement} root
   * @param {Context} ctx
   */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.id = `beside-${++instanceCount}`;
    this.form = el("div", { class: "f-compact bs-form" });
    this.go = createButton(tr("Read it with both"), () => this.#ask(), { class: "dp-btn" });
    this.halt = createButton(tr("Stop"), () => this.#stop(), { class: "dp-btn" });
    this.halt.hidden = true;
    /**
     * @param {string} name
     * @param {string} ending
     * @param {string} type
     * @param {(found: Compared) => string} textOf
     */
    const save = (name, ending, type, textOf) =>
      createButton(
        name,
        () => this.#found && saveAs(`beside${ending}`, type, textOf(this.#found)),
        { class: "dp-btn" },
      );
    this.saves = [
      save(tr("Tokens (.csv)"), ".csv", "text/csv", ({ csv }) => csv),
      save(tr("Everything (.json)"), ".json", "application/json", ({ csv: _, ...found }) =>
        JSON.stringify(found),
      ),
    ];
    this.say = el("p", { class: "dp-note", role: "status" });
    this.drawn = el("div", { class: "bs-result" });
    const acts = el("div", { class: "dp-row" }, this.go, this.halt, this.saves);
    this.about = el("p", { class: "dp-note" }, ABOUT);
    root.append(this.about, this.form, acts, this.say, this.drawn);
    this.#offerSaves();
  }

  /**
   * Preselect the run's own model, to compare it with a quantized version of itself; of a server's run,
   * the first one.
   * @param {Run} run
   */
  #offer(run) {
    const model = run.served ? getDeclaration().models[0].name : run.model.id;
    this.about.textContent = run.served ? ABOUT_SERVER : ABOUT;
    this.go.textContent = run.served ? tr("Read it here") : tr("Read it with both");
    const models = new ModelPicker(
      { name: run.strategy, draft: "none", model, assistant: "", refused: {} },
      this.id,
      { roles: MODEL_ROLES },
    );
    const { params, only } = getDeclaration().weights;
    const form = new Form(params, this.id, {}, { only });
    models.form = form;
    this.form.replaceChildren(...models.boxes, form.weights ?? "");
    this.#models = models;
    this.#weights = form;
  }

  /** @param {Run} run */
  update(run) {
    const idle = run.status !== "running" && run.status !== "failed" && run.outputs?.length > 0;
    if (run.id !== this.#runId) {
      this.#runId = run.id;
      this.#forget();
      if (run.model?.id) this.#offer(run);
    }
    this.#run = run;
    this.go.disabled = !idle || this.#question.isOpen;
  }

  select() {}

  clear() {
    this.#run = null;
    this.#runId = "";
    this.#forget();
    this.form.replaceChildren();
  }

  #forget() {
    this.#question.stop();
    this.#question.forget();
    this.#found = null;
    this.halt.hidden = true;
    this.say.textContent = "";
    this.drawn.replaceChildren();
    this.#offerSaves();
  }

  #offerSaves() {
    for (const save of this.saves) save.hidden = !this.#found;
  }

  #stop() {
    this.#question.stop();
    this.say.textContent = tr("Stopping…");
  }

  async #ask() {
    const run = this.#run;
    if (!run || !this.#models || !this.#weights) return;
    this.go.disabled = true;
    this.halt.hidden = false;
    this.say.textContent = run.served ? READING_HERE : READING;
    const { model } = this.#models.values();
    const weights = this.#weights.values();
    // What a server reported is in the steps.
    const trace = run.served ? toTrace(run) : withoutSteps(run);
    const answer = await this.#question.ask((press) =>
      askServer({ action: "beside", trace, model, weights, press }),
    );
    // Another run is shown by now.
    if (!answer) return;
    this.halt.hidden = true;
    this.update(run);
    if (answer.error) {
      this.say.textContent = `⚠ ${said(answer.error)}`;
      return;
    }
    this.#found = answer;
    this.say.textContent = doneSentence((answer.tokens ?? answer.token_ids).length);
    const create = run.served ? createServerComparison : createModelComparison;
    this.drawn.replaceChildren(...create(answer, (at) => this.#choose(at)));
    this.#offerSaves();
  }

  /**
   * Select the step that wrote a token, if any.
   * @param {number} at
   */
  #choose(at) {
    const step = this.#run?.tokens[0]?.[at]?.step;
    if (step !== undefined) this.ctx.select(step);
  }
}

/** @type {ViewSpec} */
export const modelComparisonView = {
  title: tr("Compare with another model"),
  whole: true,
  place: "drawer",
  empty: tr(
    "After a run: read its text with another model, or with the same one at fewer bits, and see where they differ.",
  ),
  mount: (root, ctx) => new ModelComparison(root, ctx),
};
