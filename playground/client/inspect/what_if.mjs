// The What if view: the server decides a recorded step again under other settings, with the same
// random number.
import { createButton, createFact, el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { formatCount, formatFixed, formatPercent } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { Form as WhatIfForm } from "../forms/form.mjs";
import { StoppableQuestion } from "../jobs/question.mjs";
import { waitUntilFound } from "../shell/polling.mjs";
import { findStrategy } from "../shell/spec.mjs";
import { getStrategyTab } from "../shell/strategy_tabs.mjs";
import { openTab } from "../shell/tab_navigation.mjs";
import { changedParameters } from "./dial_preview.mjs";
import { CandidateBars } from "./what_if_bars.mjs";
import { ProcessorCards } from "./what_if_cards.mjs";
import { askWhatIf } from "./what_if_questions.mjs";
import { decisionSentence, firstChangeSentence } from "./what_if_sentences.mjs";

const PAUSE_MS = 50;
const HINT = tr(
  "Switch a filter off, or move it, to see how this step would change. Same random number, new filters.",
);
const SLIDER_HINT = tr(
  "Move a slider to see how this step would change. Same random number, new settings. You can also switch a filter off or move it.",
);
/** @type {Record<string, string>} */
const SOURCES = {
  kept: tr("Exact: computed from this run’s own logits over the whole vocabulary."),
  recomputed: tr(
    "The logits of this run are no longer kept: they were computed again in one pass over its text, and may differ in their last digits.",
  ),
  recorded: tr(
    "The model of this run is not loaded, so only its recorded candidates are known: every share is one among them.",
  ),
};
const INEXACT_DRAW = tr(
  "This draw can’t be reproduced exactly, so the result below is approximate.",
);
const NO_MATCHING_SETTINGS = tr("No settings give these filters in this order.");
const BRANCH_REASON = tr("A branch continues tokens, not a prompt, so the form cannot hold it.");

/** @import { Form } from "../forms/form.mjs" */

/**
 * Give a control a slider, even if the control can be off.
 * @param {import("../shell/spec.mjs").Param} param
 */
const withSlider = (param) => ({ ...param, slider: param.slider ?? param.reach ?? null });

class WhatIfPanel {
  /** @type {any} */
  #run = null;
  #index = 0;
  #timer = 0;
  #question = new StoppableQuestion({ latestOnly: true });
  #key = "";
  /** @type {Form | null} the page's own next to the run, or one of this view */
  #form = null;
  #touched = false;

  /**
   * @param {HTMLElement} root
   * @param {Context} ctx
   */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.say = el("p", { class: "wi-status", role: "status" });
    this.first = el("span", {});
    this.jump = createButton("", () => this.ctx.select(this.goal), { class: "dp-btn wi-jump" });
    this.jump.hidden = true;
    this.goal = 0;
    this.slot = el("div", { class: "wi-form" });
    this.facts = el("div", { class: "dp-costs wi-facts" });
    this.bars = new CandidateBars();
    this.cards = new ProcessorCards(() => this.#markTouched());
    this.note = el("p", { class: "dp-note" });
    this.go = createButton(tr("Run with these settings"), () => this.#runSettings(), {
      class: "dp-btn f-go",
    });
    this.reset = createButton(tr("Reset"), () => this.#resetAll(), {
      title: tr("Back to the run’s own settings and filters"),
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
    root.append(el("div", { class: "wi-summary" }, this.say, turn), this.all);
    this.root = root;
  }

  /** @param {Run} run */
  update(run) {
    if (run.status === "running") {
      this.#showReason(tr("When the run has ended, its steps can be asked what if."));
      this.#key = "";
      return;
    }
    const at = run.selected ?? -1;
    if (run.steps[at]) this.select(run, at);
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
    const { refused } = findStrategy(run.strategy)?.what_if ?? {
      refused: tr("Its strategy is unknown."),
    };
    if (refused) return this.#showReason(said(refused));
    if (other || !this.#form) this.#reset();
    this.all.hidden = false;
    if (!this.#touched) return this.#showRecorded();
    this.#showSentence(tr("Deciding step {step} again…", { step: index + 1 }));
    this.#scheduleQuestion();
  }

  clear() {
    this.#key = "";
    this.#run = null;
    this.#question.forget();
    clearTimeout(this.#timer);
  }

  /**
   * Hide the controls and show why nothing can be asked.
   * @param {string} sentence
   */
  #showReason(sentence) {
    this.#question.forget();
    clearTimeout(this.#timer);
    this.root.removeAttribute("aria-busy");
    this.all.hidden = true;
    this.#showSentence(sentence);
  }

  /** @param {string} sentence */
  #showSentence(sentence, decided = false) {
    this.say.classList.toggle("wi-answered", decided);
    if (this.say.textContent !== sentence) this.say.textContent = sentence;
    this.first.textContent = "";
    this.jump.hidden = true;
  }

  // Reset the processors to the run's own, and the settings where they are this view's.
  #reset() {
    this.#touched = false;
    this.cards.reset();
    if (!this.#usesDials()) this.#createForm();
  }

  // Next to the strategy's own dials, no setting has a second control.
  #usesDials() {
    const form = getStrategyTab(this.ctx.strategy)?.form;
    if (!form) return false;
    if (this.#form === form) return true;
    this.#form = form;
    for (const box of [form.dials, form.box])
      box.addEventListener("input", () => this.#touched && this.#scheduleQuestion());
    return true;
  }

  #createForm() {
    const strategy = findStrategy(this.#run.strategy);
    if (!strategy) return;
    const { params, only, what_if: offered } = strategy;
    const shown = params.filter((p) => offered.params.includes(p.name)).map(withSlider);
    const { config } = this.#run;
    // An older run lacks the parameters that came later: they were off, which is their default.
    const known = shown.filter(({ name }) => name in config);
    const own = Object.fromEntries(known.map(({ name }) => [name, config[name] ?? ""]));
    this.#form = new WhatIfForm(shown, `${this.ctx.strategy}-what-if`, own, { only });
    this.#form.box.addEventListener("input", () => this.#markTouched());
    this.slot.replaceChildren(this.#form.box);
    // Without main parameters the form is only folded groups, so the first one is opened.
    const group = this.#form.box.querySelector(":scope > details:first-child");
    if (group instanceof HTMLDetailsElement) group.open = true;
  }

  // Show the step as it was recorded, before any question.
  #showRecorded() {
    this.root.removeAttribute("aria-busy");
    this.#showSentence(this.#usesDials() ? HINT : SLIDER_HINT);
    this.facts.replaceChildren();
    this.bars.clear();
    this.note.textContent = "";
    this.why.textContent = "";
    /** @type {Step} */
    const step = this.#run.steps[this.#index];
    this.cards.show(step.stages.map(({ name }) => ({ name, on: true })));
    this.go.disabled = true;
    this.reset.disabled = true;
  }

  #resetAll() {
    this.#question.forget();
    clearTimeout(this.#timer);
    this.#reset();
    this.#showRecorded();
  }

  #markTouched() {
    this.#touched = true;
    this.reset.disabled = false;
    this.#scheduleQuestion();
  }

  #scheduleQuestion() {
    this.#question.forget();
    clearTimeout(this.#timer);
    this.root.setAttribute("aria-busy", "true");
    this.#timer = window.setTimeout(() => this.#askServer(), PAUSE_MS);
  }

  async #askServer() {
    const answer = await this.#question.ask((press) => this.#fetchAnswer("what_if", press));
    if (!answer) return;
    this.root.removeAttribute("aria-busy");
    if (answer.error) return this.#showError(answer.error);
    this.#drawAnswer(answer);
    if (answer.changed.length || this.cards.changed) {
      this.first.textContent = tr("Looking through the run…");
      const found = await this.#question.ask((press) => this.#fetchAnswer("what_if_first", press));
      if (found) this.#drawFirst(found);
    }
  }

  /**
   * @param {"what_if" | "what_if_first"} action
   * @param {string} press
   */
  #fetchAnswer(action, press) {
    const { off, order } = this.cards;
    const params = this.#changedValues();
    return askWhatIf(this.#run, { action, step: this.#index, params, off, order, press });
  }

  // The values that a step can be decided with and that differ from the run's.
  #changedValues() {
    const values = this.#form?.values() ?? {};
    if (!this.#usesDials()) return values;
    const strategy = findStrategy(this.#run.strategy);
    const own = this.#run.form?.values;
    const changed = strategy && own ? changedParameters(strategy, own, values) : [];
    const offered = changed.filter(({ name }) => strategy?.what_if.params.includes(name));
    return Object.fromEntries(offered.map(({ name, value }) => [name, value]));
  }

  /** @param {string} sentence */
  #showError(sentence) {
    this.#showSentence(`⚠ ${said(sentence)}`, true);
    this.facts.replaceChildren();
    this.bars.clear();
    this.note.textContent = "";
    this.go.disabled = true;
  }

  /** @param {any} answer of the server */
  #drawAnswer(answer) {
    const form = this.#form;
    if (!form) return;
    const run = { ...this.#run, pieces: { ...this.#run.pieces, ...answer.pieces } };
    this.#showSentence(decisionSentence(this.cards, form, run, answer), true);
    this.facts.replaceChildren(
      createFact(tr("kept mass"), formatPercent(answer.mass)),
      createFact(tr("tokens left"), formatCount(answer.kept)),
      createFact(
        tr("entropy"),
        tr("{before} → {after} bits", {
          before: formatFixed(answer.bits),
          after: formatFixed(answer.bits_used),
        }),
      ),
    );
    this.bars.show(run, answer);
    this.cards.show(answer.stages);
    const luck = answer.same_luck ? [] : [INEXACT_DRAW];
    this.note.textContent = [SOURCES[answer.source], ...luck].join(" ");
    this.#offerRun(answer);
  }

  /** @param {{ values: Record<string, any> | null }} answer of the server */
  #offerRun({ values }) {
    const reason =
      this.#run.prompt === null && !this.#run.messages
        ? BRANCH_REASON
        : values
          ? ""
          : NO_MATCHING_SETTINGS;
    this.values = values;
    this.go.disabled = reason !== "";
    this.why.textContent = reason;
  }

  /** @param {any} found the server's answer */
  #drawFirst(found) {
    const { first } = found;
    this.first.textContent = firstChangeSentence(this.#run, found);
    if (!first) return;
    this.goal = first.step;
    this.jump.textContent = tr("Go to step {step}", { step: first.step + 1 });
    this.jump.hidden = first.step === this.#index;
  }

  // Fill the strategy's tab with the run's prompt and the new settings, and run it.
  #runSettings() {
    const { strategy, prompt, messages, template, model, assistant, seed } = this.#run;
    const { values } = this;
    openTab(strategy);
    waitUntilFound(
      () => getStrategyTab(strategy),
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
  place: "drawer",
  empty: tr("After a run: its steps decided again under other settings, with the same luck."),
  mount: (root, ctx) => new WhatIfPanel(root, ctx),
};
