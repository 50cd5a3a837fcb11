// Compares a run with another model: the server scores the run's text with both.
import { besideOf } from "../../../visualizers/beside/view.mjs";
import { button, el, saveAs } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { Form } from "../forms/form.mjs";
import { Models } from "../forms/model_picker.mjs";
import { newName } from "../shell/pending_runs.mjs";
import { ask } from "../shell/questions.mjs";
import { declared } from "../shell/spec.mjs";
import { slim } from "./export.mjs";

const ABOUT = tr(
  "The same text, read by another model with the same tokenizer, or by the same one held with fewer bits: how far its distribution is off at every token.",
);
const READING = tr("Both models read the text, then each writes greedily…");

const ROLES = ["target", "draft", "foreign", "seq2seq"];

const doneWith = (n) =>
  n === 1 ? tr("Done: 1 token.") : tr("Done: {n} tokens.", { n: n.toLocaleString("en") });

let made = 0;

class BesideRun {
  /** @type {Run | null} */
  #run = null;
  #known = "";
  // Id that stops the open question, empty if none is open.
  #press = "";
  #found = null;

  /** @param {Context} ctx */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.id = `beside-${++made}`;
    this.form = el("div", { class: "f-compact bs-form" });
    this.go = button(tr("Read it with both"), () => this.#ask(), { class: "dp-btn" });
    this.halt = button(tr("Stop"), () => this.#stop(), { class: "dp-btn" });
    this.halt.hidden = true;
    const save = (name, ending, type, textOf) =>
      button(name, () => saveAs(`beside${ending}`, type, textOf(this.#found)), { class: "dp-btn" });
    this.saves = [
      save(tr("Tokens (.csv)"), ".csv", "text/csv", ({ csv }) => csv),
      save(tr("Everything (.json)"), ".json", "application/json", ({ csv: _, ...found }) =>
        JSON.stringify(found),
      ),
    ];
    this.say = el("p", { class: "dp-note", role: "status" });
    this.drawn = el("div", { class: "bs-drawn" });
    const acts = el("div", { class: "dp-row" }, this.go, this.halt, this.saves);
    root.append(el("p", { class: "dp-note" }, ABOUT), this.form, acts, this.say, this.drawn);
    this.#offerSaves();
  }

  // Preselects the run's own model, to compare it with a quantized version of itself.
  #offer(run) {
    this.models = new Models(
      { name: run.strategy, draft: "none", model: run.model.id, assistant: "", refused: {} },
      this.id,
      ROLES,
    );
    const { params, only } = declared().weights;
    this.weights = new Form(params, this.id, {}, { only });
    this.models.params = () => this.weights.values();
    this.form.replaceChildren(...this.models.boxes, this.weights.weights ?? "");
  }

  /** @param {Run} run */
  update(run) {
    const idle = run.status !== "running" && run.status !== "failed" && run.outputs?.length > 0;
    if (run.id !== this.#known) {
      this.#known = run.id;
      this.#forget();
      if (run.model?.id) this.#offer(run);
    }
    this.#run = run;
    this.go.disabled = !idle || this.#press !== "";
  }

  select() {}

  clear() {
    this.#run = null;
    this.#known = "";
    this.#forget();
    this.form.replaceChildren();
  }

  #forget() {
    if (this.#press) this.#stop();
    this.#press = "";
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
    ask({ action: "stop", press: this.#press });
    this.say.textContent = tr("Stopping…");
  }

  async #ask() {
    const run = this.#run;
    if (!run) return;
    const press = newName();
    this.#press = press;
    this.go.disabled = true;
    this.halt.hidden = false;
    this.say.textContent = READING;
    const { model } = this.models.values();
    const weights = this.weights.values();
    const answer = await ask({ action: "beside", trace: slim(run), model, weights, press });
    // Another run is shown by now.
    if (press !== this.#press) return;
    this.#press = "";
    this.halt.hidden = true;
    this.update(run);
    if (answer.error) {
      this.say.textContent = `⚠ ${said(answer.error)}`;
      return;
    }
    this.#found = answer;
    this.say.textContent = doneWith(answer.token_ids.length);
    this.drawn.replaceChildren(...besideOf(answer, (at) => this.#choose(at)));
    this.#offerSaves();
  }

  // Selects the step that wrote a token, if any.
  #choose(at) {
    const step = this.#run?.tokens[0]?.[at]?.step;
    if (step !== undefined) this.ctx.select(step);
  }
}

/** @type {ViewSpec} */
export const beside = {
  title: tr("Beside another model"),
  whole: true,
  place: "drawer",
  empty: tr(
    "After a run: read its text with another model, or with the same one at fewer bits, and see where they differ.",
  ),
  mount: (root, ctx) => new BesideRun(root, ctx),
};
