// The fork panel: continues a run from any step with another token or a typed text.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { parseMessage, said } from "../../../visualizers/shared/server_text.mjs";
import { makeVisible, tokensText, tokenText } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { createStrategyForm } from "../forms/strategy_form.mjs";
import { ALREADY_RUNNING, beginJob } from "../jobs/job.mjs";
import { store } from "../shell/page_state.mjs";
import { findStrategy } from "../shell/spec.mjs";
import { openTab } from "../shell/tab_navigation.mjs";
import { runMediaNames, withMedia } from "../shell/visitor_media.mjs";
import {
  choiceLabel,
  isBeamStep,
  keptTokenIds,
  listChoices,
  suggestedIndex,
} from "./branch_choices.mjs";
import { BranchTree } from "./branch_tree.mjs";
import { relatedRuns, rememberRun, strategyTitle } from "./related_runs.mjs";

const CONTEXT_TOKENS = 12;
const CANNOT_FORK = tr(
  "This model reads its prompt apart from the text it writes: it cannot be continued from a step.",
);

const views = new Set();
// Number of a requested branch -> its callback, until the server answers.
const waiting = new Map();
let send = null;
let number = 0;
let isConnected = null;
const forkReady = new Promise((done) => {
  isConnected = done;
});

/** Connect the hidden element: `f` requests a branch, the result takes the answers. */
export function connectFork(f) {
  send = f;
  isConnected();
  return { receive: receiveAnswer };
}

function receiveAnswer(text) {
  if (!text) return;
  const message = parseMessage(text);
  const done = waiting.get(message.number);
  waiting.delete(message.number);
  if (done) done(message);
}

/**
 * Start the branch that a link describes; resolves with an error sentence, empty if it started.
 * @param {any} branch the run, the step and the new token or text
 * @param {any} asked values of the form
 */
export async function startLinkedBranch(branch, asked) {
  await forkReady;
  const { prompt: _, messages: __, template: ___, ...controls } = await withMedia(asked);
  // A reloaded page has resumed the branch already.
  if (store.busy(asked.strategy)) return "";
  return new Promise((done) => {
    waiting.set(++number, ({ error }) => done(error ?? ""));
    const question = { number, linked: true, run_id: "", end_ids: [], ...branch, ...controls };
    beginJob(asked.strategy, (more) => send({ ...question, ...more }));
  });
}

function redrawTrees() {
  for (const view of views) {
    if (view.root.isConnected) view.drawTree();
    else views.delete(view);
  }
}

/**
 * Show a run in the tab of its strategy.
 * @param {Run} run
 */
function openRun(run) {
  rememberRun(run);
  store.show(run.strategy, run);
  openTab(run.strategy);
}

/**
 * The weight settings in the form of a run.
 * @param {Run} run
 */
function weightSettings(run) {
  const { form } = run;
  const kinds = form ? (findStrategy(run.strategy)?.params ?? []) : [];
  const held = kinds.filter(({ group, name }) => group === "weights" && name in form.values);
  return Object.fromEntries(held.map(({ name }) => [name, form.values[name]]));
}

/**
 * Return a run's settings as values of a form.
 * @param {Run} run
 */
function formSettings(run) {
  const given = Object.entries(run.config).filter(([, value]) => value !== null);
  const params = given.map(([key, value]) => [
    key,
    typeof value === "object" ? JSON.stringify(value) : value,
  ]);
  return {
    strategy: run.strategy,
    params: { ...Object.fromEntries(params), ...weightSettings(run) },
    model: run.model.id,
    assistant: run.assistant ? run.assistant.id : "",
  };
}

class ForkPanel {
  #run = null;
  // The choice that a view asked to continue with.
  #wanted = null;
  #listed = "";
  #form = null;
  #asked = 0;

  /** @param {Context} ctx */
  constructor(root, ctx) {
    this.root = root;
    this.ctx = ctx;
    this.tree = new BranchTree(openRun);
    this.ask = el("div", { class: "fm-ask" }, this.#line(), this.#previewLine(), this.#settings());
    this.say = el("p", { class: "dp-status", role: "status" });
    this.ask.append(this.say);
    root.classList.add("fm-root");
    root.append(this.ask, this.tree.node);
    ctx.fork = (choice) => this.#continueWith(choice);
    views.add(this);
  }

  #line() {
    this.label = el("span", { class: "fm-label" });
    this.what = el("select", {
      "aria-label": tr("Token to continue with"),
      onchange: () => {
        this.typed.value = "";
        this.#preview();
      },
    });
    this.typed = el("input", {
      type: "text",
      maxlength: 2000,
      placeholder: tr("or type a text"),
      "aria-label": tr("Text to continue with"),
      oninput: () => this.#preview(),
      onkeydown: (event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        this.#start();
      },
    });
    this.go = createButton(tr("Continue"), () => this.#start(), { class: "dp-btn f-go fm-go" });
    return el("div", { class: "dp-row fm-line" }, this.label, this.what, this.typed, this.go);
  }

  #previewLine() {
    this.chip = el("p", { class: "fm-chip" });
    return this.chip;
  }

  #settings() {
    this.name = el("b", {});
    this.slot = el("div", {});
    this.seed = el("input", {
      type: "number",
      min: 0,
      step: 1,
      "aria-label": tr("Seed of the branch"),
    });
    this.settings = el(
      "details",
      {
        class: "fm-settings",
        ontoggle: () => {
          if (this.settings.open) this.#ensureForm();
        },
      },
      el("summary", {}, tr("With "), this.name),
      this.slot,
    );
    return this.settings;
  }

  // Continues with a view's choice. Two frames later its step is selected and its choices listed.
  #continueWith(choice) {
    this.#wanted = choice;
    this.#listed = "";
    this.typed.value = "";
    this.ctx.select(choice.step);
    this.ctx.open("family");
    const show = () => {
      this.#list();
      this.ask.scrollIntoView({ block: "nearest" });
      this.go.focus({ preventScroll: true });
    };
    requestAnimationFrame(() => requestAnimationFrame(show));
  }

  get #step() {
    return this.#run.steps[this.#run.selected];
  }

  get #choice() {
    return listChoices(this.#run, this.#step)[this.what.selectedIndex];
  }

  #list() {
    const run = this.#run;
    if (!run || run.selected === null || !this.#step) return;
    const step = this.#step;
    const key = `${run.id}:${step.index}`;
    this.label.textContent = tr("At step {step} put", { step: step.index + 1 });
    if (key === this.#listed) return;
    this.#listed = key;
    const all = listChoices(run, step);
    this.what.replaceChildren(
      ...all.map((choice, i) =>
        el("option", { value: i, disabled: !choice.usable }, choiceLabel(run, step, choice)),
      ),
    );
    this.what.selectedIndex = suggestedIndex(step, all, this.#wanted);
    this.#preview();
  }

  #keptIds(choice) {
    return keptTokenIds(this.#run, this.#step, isBeamStep(this.#step) ? choice?.node : null);
  }

  // Shows the end of the kept text and the new token or text.
  #preview() {
    const run = this.#run;
    const choice = this.#choice;
    const ids = [...run.prompt_ids, ...this.#keptIds(choice)];
    const cut = ids.length > CONTEXT_TOKENS ? "…" : "";
    const put = this.typed.value || (choice ? tokenText(run, choice.token_id) : "");
    const kept = cut + tokensText(run, ids.slice(-CONTEXT_TOKENS));
    this.chip.replaceChildren(
      tr("Continues "),
      el("span", { class: "fm-context" }, kept),
      el("b", {}, makeVisible(put)),
    );
  }

  // Makes the branch's form on first use, with its parent's settings.
  #ensureForm() {
    if (this.#form) return this.#form;
    const run = this.#run;
    const changed = () => {
      this.name.textContent = this.#form.title();
    };
    this.#form = createStrategyForm(tr("branch"), formSettings(run), changed);
    this.seed.value = run.seed;
    this.slot.replaceChildren(
      this.#form.box,
      el("label", { class: "fm-seed" }, tr("Seed "), this.seed),
    );
    return this.#form;
  }

  #start() {
    if (this.go.disabled) return;
    const choice = this.#choice;
    if (!this.typed.value && !choice) return this.#problem(tr("Choose a token or type a text."));
    const question = this.#question(choice, this.#ensureForm().ask());
    if (store.busy(question.strategy)) return this.#problem(`${ALREADY_RUNNING}.`);
    rememberRun(this.#run);
    this.#asked = ++number;
    this.go.disabled = true;
    this.say.className = "dp-status";
    this.say.textContent = tr("Starting…");
    waiting.set(this.#asked, (answer) => this.#handleAnswer(answer, question));
    const asked = { number: this.#asked, ...question };
    beginJob(question.strategy, async (more) => send({ ...(await withMedia(asked)), ...more }));
  }

  // Sends the kept ids and their texts: the server does not look a parent run up by its id.
  #question(choice, controls) {
    const run = this.#run;
    const kept = this.#keptIds(choice);
    const ids = [...run.prompt_ids, ...kept];
    const put = this.typed.value ? { text: this.typed.value } : { token_id: choice.token_id };
    return {
      prompt_ids: run.prompt_ids,
      kept_ids: kept,
      step: this.#step.index,
      run_id: run.id,
      end_ids: run.eos_token_ids,
      pieces: Object.fromEntries(ids.map((id) => [id, run.pieces[id]])),
      ...put,
      ...controls,
      ...runMediaNames(run),
      seed: this.seed.value === "" ? null : Number(this.seed.value),
    };
  }

  #handleAnswer(answer, question) {
    this.go.disabled = this.#blocked();
    this.say.textContent = "";
    if (answer.error) {
      // No run has started in the branch's tab, so clear its activity.
      if (!store.activity(question.strategy)?.run) store.act(question.strategy, null);
      return this.#problem(answer.error);
    }
    this.typed.value = "";
    this.#wanted = null;
    if (question.strategy !== this.ctx.strategy) openTab(question.strategy);
    redrawTrees();
  }

  #problem(sentence) {
    this.say.className = "dp-status bad";
    this.say.textContent = said(sentence);
  }

  #blocked() {
    const run = this.#run;
    if (!run || !send || !run.model.id) return true;
    return !!run.model.is_encoder_decoder || !run.steps.length;
  }

  drawTree() {
    this.tree.draw(this.#run);
  }

  /** @param {Run} run */
  update(run) {
    if (run.id !== this.#run?.id) this.#show(run);
    if (run.parent && !relatedRuns.has(run.id)) {
      rememberRun(run);
      redrawTrees();
    }
    this.go.disabled = this.#blocked() || waiting.has(this.#asked);
    if (run.model.is_encoder_decoder) this.#problem(CANNOT_FORK);
    if (relatedRuns.has(run.id)) this.drawTree();
    else this.tree.node.hidden = true;
  }

  /** @param {Run} run */
  #show(run) {
    this.#run = run;
    this.#form = null;
    this.slot.replaceChildren();
    this.settings.open = false;
    this.say.textContent = "";
    this.name.textContent = tr("{title}, the settings of this run", {
      title: strategyTitle(run.strategy),
    });
    this.#listed = "";
  }

  select() {
    this.#list();
  }

  clear() {
    this.#listed = "";
  }
}

/** @type {ViewSpec} */
export const forkView = {
  title: tr("Continue from here"),
  whole: true,
  place: "answers",
  tab: tr("Continue"),
  empty: tr(
    "After a run: choose another token at any step, or type a text, and see where it leads.",
  ),
  mount: (root, ctx) => new ForkPanel(root, ctx),
};
