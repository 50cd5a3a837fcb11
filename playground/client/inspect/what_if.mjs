// The What if view: the server decides a recorded step again under other settings, with the same
// random number.
import { button, el, fact } from "../../../visualizers/shared/dom.mjs";
import { trace } from "../../../visualizers/shared/record.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { percent, textOfId } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { Form } from "../forms/form.mjs";
import { whenThere } from "../shell/polling.mjs";
import { ask } from "../shell/questions.mjs";
import { strategyOf } from "../shell/spec.mjs";
import { tabOf } from "../shell/strategy_tabs.mjs";
import { openTab } from "../shell/tab_navigation.mjs";
import { timed } from "./step_questions.mjs";
import { Bars } from "./what_if_bars.mjs";
import { Cards } from "./what_if_cards.mjs";
import { decidedOf, firstOf } from "./what_if_sentences.mjs";

const PAUSE_MS = 120;
const HINT = tr(
  "Move a slider, or switch a processor off or to another place. The step is decided again with the same luck.",
);
const SOURCES = {
  kept: tr("Exact: computed from this run’s own logits over the whole vocabulary."),
  recomputed: tr(
    "The logits of this run are no longer kept: they were computed again in one pass over its text, and may differ in their last digits.",
  ),
  recorded: tr(
    "The model of this run is not loaded, so only its recorded candidates are known: every share is one among them.",
  ),
};
const OTHER_LUCK = tr(
  "The run’s own settings do not give its own token here, so the draw cannot be repeated exactly.",
);
const NO_PARAMETERS = tr("No settings of a run say the same as these processors in this order.");
const BRANCH = tr("A branch continues tokens, not a prompt, so the form cannot hold it.");

let asked = 0;

/**
 * Give a control a slider, even if the control can be off.
 * @param {import("../shell/spec.mjs").Param} param
 */
const withSlider = (param) => ({ ...param, slider: param.slider ?? param.reach ?? null });

/**
 * Reduce a run that the server no longer has to all ids and the candidates of one step.
 * @param {Run} run
 * @param {number} index
 */
function slim(run, index) {
  const all = run.source?.trace.steps ?? run.steps;
  const steps = all.map(({ index: i, keep, emit, sequence, candidates, logsumexp, entropy }) => ({
    ...{ index: i, keep, emit, sequence },
    ...(i === index ? { candidates, logsumexp, entropy } : {}),
  }));
  const ids = [...run.prompt_ids, ...steps.flatMap((s) => s.emit)];
  ids.push(...(all[index].candidates ?? []).map((c) => c.token_id));
  const pieces = Object.fromEntries([...new Set(ids)].map((id) => [id, textOfId(run, id)]));
  return { ...trace(run), steps, outputs: [], emitted: [], pieces, metrics: {}, notes: [] };
}

class WhatIf {
  /** @type {any} */
  #run = null;
  #index = 0;
  #timer = 0;
  // Number of the newest question; answers to older ones are dropped.
  #asking = 0;
  #key = "";
  /** @type {any} */
  #form = null;
  #touched = false;
  #forgotten = new Set();

  /** @param {Context} ctx */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.asker = `${Math.random()}`.slice(2);
    this.say = el("p", { class: "wi-say", role: "status" });
    this.first = el("span", {});
    this.jump = button("", () => this.ctx.select(this.goal), { class: "dp-btn wi-jump" });
    this.jump.hidden = true;
    this.goal = 0;
    this.slot = el("div", { class: "wi-form" });
    this.facts = el("div", { class: "dp-costs wi-facts" });
    this.bars = new Bars();
    this.cards = new Cards(() => this.#touch());
    this.note = el("p", { class: "dp-note" });
    this.go = button(tr("Run with these settings"), () => this.#start(), { class: "dp-btn f-go" });
    this.reset = button(tr("Reset"), () => this.#restore(), {
      title: tr("Back to the run’s own settings and processors"),
    });
    this.acts = el("div", { class: "wi-acts" }, this.go, this.reset);
    this.why = el("p", { class: "dp-note" });
    this.all = el(
      "div",
      { class: "wi-all" },
      this.slot,
      this.facts,
      this.bars.node,
      this.cards.node,
      this.acts,
      this.why,
      this.note,
    );
    const turn = el("p", { class: "wi-first", role: "status" }, this.first, " ", this.jump);
    root.classList.add("wi-root");
    root.append(el("div", { class: "wi-told" }, this.say, turn), this.all);
    this.root = root;
  }

  /** @param {Run} run */
  update(run) {
    if (run.status === "running") {
      this.#quiet(tr("When the run has ended, its steps can be asked what if."));
      this.#key = "";
      return;
    }
    if (run.steps[run.selected ?? -1]) this.select(run, run.selected);
  }

  /**
   * @param {Run} run
   * @param {number} index
   */
  select(run, index) {
    const key = `${run.id}:${index}`;
    if (run.status === "running" || key === this.#key) return;
    const other = this.#run?.id !== run.id;
    this.#key = key;
    this.#run = run;
    this.#index = index;
    const { refused } = strategyOf(run.strategy)?.what_if ?? {
      refused: tr("Its strategy is unknown."),
    };
    if (refused) return this.#quiet(said(refused));
    if (other || !this.#form) this.#begin();
    this.all.hidden = false;
    if (!this.#touched) return this.#rest();
    this.#tell(tr("Deciding step {step} again…", { step: index + 1 }));
    this.#soon();
  }

  clear() {
    this.#key = "";
    this.#run = null;
    this.#asking = ++asked;
    clearTimeout(this.#timer);
  }

  // Hide the controls and show why nothing can be asked.
  #quiet(sentence) {
    this.#asking = ++asked;
    clearTimeout(this.#timer);
    this.root.removeAttribute("aria-busy");
    this.all.hidden = true;
    this.#tell(sentence);
  }

  #tell(sentence, decided = false) {
    this.say.classList.toggle("wi-decided", decided);
    if (this.say.textContent !== sentence) this.say.textContent = sentence;
    this.first.textContent = "";
    this.jump.hidden = true;
  }

  // Reset the form to the run's own settings and processors.
  #begin() {
    const { params, only, what_if: offered } = strategyOf(this.#run.strategy);
    const shown = params.filter((p) => offered.params.includes(p.name)).map(withSlider);
    const own = Object.fromEntries(shown.map((p) => [p.name, this.#run.config[p.name] ?? ""]));
    this.#form = new Form(shown, `${this.ctx.strategy}-what-if`, own, { only });
    this.#form.box.addEventListener("input", () => this.#touch());
    this.slot.replaceChildren(this.#form.box);
    // Without main parameters the form is only folded groups, so the first one is opened.
    const group = this.#form.box.querySelector(":scope > details:first-child");
    if (group instanceof HTMLDetailsElement) group.open = true;
    this.#touched = false;
    this.cards.reset();
  }

  // Show the step as it was recorded, before any question.
  #rest() {
    this.root.removeAttribute("aria-busy");
    this.#tell(HINT);
    this.facts.replaceChildren();
    this.bars.clear();
    this.note.textContent = "";
    this.why.textContent = "";
    this.cards.show(this.#run.steps[this.#index].stages.map(({ name }) => ({ name, on: true })));
    this.go.disabled = true;
    this.reset.disabled = true;
  }

  #restore() {
    this.#asking = ++asked;
    clearTimeout(this.#timer);
    this.#begin();
    this.#rest();
  }

  #touch() {
    this.#touched = true;
    this.reset.disabled = false;
    this.#soon();
  }

  #soon() {
    this.#asking = ++asked;
    clearTimeout(this.#timer);
    this.root.setAttribute("aria-busy", "true");
    this.#timer = window.setTimeout(() => this.#ask(), PAUSE_MS);
  }

  async #ask() {
    const mine = this.#asking;
    const answer = await this.#answer("what_if");
    if (mine !== this.#asking || answer.superseded) return;
    this.root.removeAttribute("aria-busy");
    if (answer.error) return this.#refuse(answer.error);
    this.#draw(answer);
    if (answer.changed.length || this.cards.changed) {
      this.first.textContent = tr("Looking through the run…");
      const found = await this.#answer("what_if_first");
      if (mine === this.#asking && !found.superseded) this.#drawFirst(found);
    }
  }

  // Ask the server; send the run along if the server no longer has it.
  async #answer(action) {
    const run = this.#run;
    const question = {
      action,
      run: run.id,
      step: this.#index,
      params: this.#form.values(),
      off: this.cards.off,
      order: this.cards.order,
      asker: this.asker,
    };
    if (!run.source && !this.#forgotten.has(run.id)) {
      const answer = await timed(ask(question));
      if (!answer.forgotten) return answer;
      this.#forgotten.add(run.id);
    }
    const answer = await timed(ask({ ...question, trace: slim(run, this.#index) }));
    return answer.forgotten ? { error: answer.forgotten } : answer;
  }

  #refuse(sentence) {
    this.#tell(`⚠ ${said(sentence)}`, true);
    this.facts.replaceChildren();
    this.bars.clear();
    this.note.textContent = "";
    this.go.disabled = true;
  }

  #draw(answer) {
    const run = { ...this.#run, pieces: { ...this.#run.pieces, ...answer.pieces } };
    this.#tell(decidedOf(this.cards, this.#form, run, answer), true);
    this.facts.replaceChildren(
      fact(tr("kept mass"), percent(answer.mass)),
      fact(tr("tokens left"), answer.kept.toLocaleString("en")),
      fact(
        tr("entropy"),
        tr("{before} → {after} bits", {
          before: answer.bits.toFixed(2),
          after: answer.bits_used.toFixed(2),
        }),
      ),
    );
    this.bars.show(run, answer);
    this.cards.show(answer.stages);
    const luck = answer.same_luck ? [] : [OTHER_LUCK];
    this.note.textContent = [SOURCES[answer.source], ...luck].join(" ");
    this.#offerRun(answer);
  }

  #offerRun({ values }) {
    const reason =
      this.#run.prompt === null && !this.#run.messages ? BRANCH : values ? "" : NO_PARAMETERS;
    this.values = values;
    this.go.disabled = reason !== "";
    this.why.textContent = reason;
  }

  #drawFirst(found) {
    const { first } = found;
    this.first.textContent = firstOf(this.#run, found);
    if (!first) return;
    this.goal = first.step;
    this.jump.textContent = tr("Go to step {step}", { step: first.step + 1 });
    this.jump.hidden = first.step === this.#index;
  }

  // Fill the strategy's tab with the run's prompt and the new settings, and run it.
  #start() {
    const { strategy, prompt, messages, template, model, assistant, seed } = this.#run;
    const { values } = this;
    openTab(strategy);
    whenThere(
      () => tabOf(strategy),
      (tab) => {
        tab.show({
          prompt,
          messages,
          template,
          model: model.id,
          assistant: assistant?.id ?? "",
          seed: String(seed),
          values,
        });
        tab.run();
      },
    );
  }
}

/** @type {ViewSpec} */
export const whatIf = {
  title: tr("What if"),
  whole: true,
  place: "answers",
  empty: tr("After a run: its steps decided again under other settings, with the same luck."),
  mount: (root, ctx) => new WhatIf(root, ctx),
};
