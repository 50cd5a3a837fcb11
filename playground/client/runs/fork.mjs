// The fork panel: continues a run from any step with another token or a typed text.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { parseMessage, said } from "../../../visualizers/shared/server_text.mjs";
import { makeVisible, tokensText, tokenText } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { createStrategyForm } from "../forms/strategy_form.mjs";
import { ALREADY_RUNNING, beginJob } from "../jobs/job.mjs";
import { store } from "../shell/page_state.mjs";
import { openTab } from "../shell/tab_navigation.mjs";
import { runMediaNames, withMedia } from "../shell/visitor_media.mjs";
import {
  choiceLabel,
  countBranchTokens,
  isBeamStep,
  keptTokenIds,
  lacksIds,
  listChoices,
  serverFields,
  suggestedIndex,
} from "./branch_choices.mjs";
import { formSettings } from "./branch_settings.mjs";
import { BranchText } from "./branch_text.mjs";
import { BranchTree } from "./branch_tree.mjs";
import { askedStrategy, relatedRuns, rememberRun, strategyTitle } from "./related_runs.mjs";

/** @import { Choice } from "./branch_choices.mjs" */

const CONTEXT_TOKENS = 12;
const CANNOT_FORK = tr(
  "This model reads its prompt apart from the text it writes: it cannot be continued from a step.",
);

const UNKNOWN_IDS = tr(
  "The server did not report the ids of this run's prompt, so it cannot be continued from a step.",
);

/** @type {Set<ForkPanel>} */
const views = new Set();
/** @type {Map<number, (answer: any) => void>} number of a requested branch -> its callback */
const waiting = new Map();
/** @type {((question: object) => void) | null} */
let send = null;
let number = 0;
let isConnected = () => {};
/** @type {Promise<void>} */
const forkReady = new Promise((done) => {
  isConnected = done;
});

/**
 * Connect the hidden element: `f` requests a branch, the result takes the answers.
 * @param {(question: object) => void} f
 */
export function connectFork(f) {
  send = f;
  isConnected();
  return { receive: receiveAnswer };
}

/** @param {string} text */
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
 * @returns {Promise<string>}
 */
export async function startLinkedBranch(branch, asked) {
  await forkReady;
  const { prompt: _, messages: __, template: ___, ...controls } = await withMedia(asked);
  // A reloaded page has resumed the branch already.
  if (store.busy(asked.strategy)) return "";
  return new Promise((done) => {
    waiting.set(++number, ({ error }) => done(error ?? ""));
    const question = { number, linked: true, run_id: "", end_ids: [], ...branch, ...controls };
    beginJob(asked.strategy, (more) => send?.({ ...question, ...more }));
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
  const strategy = askedStrategy(run);
  store.show(strategy, run);
  openTab(strategy);
}

class ForkPanel {
  /** @type {Run | null} */
  #run = null;
  /** @type {Fork | null} the choice that a view asked to continue with */
  #wanted = null;
  #listed = "";
  /** @type {ReturnType<typeof createStrategyForm> | null} */
  #form = null;
  #asked = 0;

  tree = new BranchTree(openRun);
  say = el("p", { class: "dp-status", role: "status" });
  label = el("span", { class: "fm-label" });
  what = el("select", {
    "aria-label": tr("Token to continue with"),
    onchange: () => {
      this.typed.clear();
      this.#preview();
    },
  });
  typed = new BranchText({
    form: () => this.#run && this.#ensureForm(this.#run),
    chat: () => !!this.#run?.messages,
    changed: () => this.#preview(),
    start: () => this.#start(),
  });
  go = createButton(tr("Continue"), () => this.#start(), { class: "dp-btn f-go fm-go" });
  chip = el("p", { class: "fm-chip" });
  name = el("b", {});
  slot = el("div", {});
  seed = el("input", {
    type: "number",
    min: 0,
    step: 1,
    "aria-label": tr("Seed of the branch"),
  });
  /** @type {HTMLDetailsElement} */
  settings = el(
    "details",
    {
      class: "fm-settings",
      ontoggle: () => {
        if (this.settings.open && this.#run) this.#ensureForm(this.#run);
      },
    },
    el("summary", {}, tr("With "), this.name),
    this.slot,
  );
  ask = el(
    "div",
    { class: "fm-ask" },
    el("div", { class: "dp-row fm-line" }, this.label, this.what, this.typed.input, this.go),
    this.chip,
    this.typed.special.box,
    this.settings,
    this.say,
  );

  /**
   * @param {HTMLElement} root
   * @param {Context} ctx
   */
  constructor(root, ctx) {
    this.root = root;
    this.ctx = ctx;
    root.classList.add("fm-root");
    root.append(this.ask, this.tree.node);
    ctx.fork = (choice) => this.#continueWith(choice);
    views.add(this);
  }

  /**
   * Continue with a view's choice. Two frames later its step is selected and its choices listed.
   * @param {Fork} choice
   */
  #continueWith(choice) {
    this.#wanted = choice;
    this.#listed = "";
    this.typed.clear();
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
    return this.#run?.steps[this.#run.selected ?? -1];
  }

  /**
   * @param {Run} run
   * @param {Step} step
   */
  #choice(run, step) {
    return listChoices(run, step)[this.what.selectedIndex];
  }

  #list() {
    const run = this.#run;
    const step = this.#step;
    if (!run || !step) return;
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

  /**
   * @param {Run} run
   * @param {Step} step
   * @param {Choice | undefined} choice
   */
  #keptIds(run, step, choice) {
    return keptTokenIds(run, step, isBeamStep(step) ? choice?.node : null);
  }

  // Shows the end of the kept text and the new token or text.
  #preview() {
    const run = this.#run;
    const step = this.#step;
    if (!run || !step) return;
    const choice = this.#choice(run, step);
    const ids = [...run.prompt_ids, ...this.#keptIds(run, step, choice)];
    const cut = ids.length > CONTEXT_TOKENS ? "…" : "";
    const put = this.typed.value || (choice ? tokenText(run, choice.token_id) : "");
    const kept = cut + tokensText(run, ids.slice(-CONTEXT_TOKENS));
    this.chip.replaceChildren(
      tr("Continues "),
      el("span", { class: "fm-context" }, kept),
      el("b", {}, makeVisible(put)),
    );
  }

  /**
   * Make the branch's form on first use, with its parent's settings.
   * @param {Run} run
   */
  #ensureForm(run) {
    if (this.#form) return this.#form;
    const named = () => {
      this.name.textContent = form.title();
    };
    const options = { addresses: Boolean(run.served) };
    const form = createStrategyForm(tr("branch"), formSettings(run), named, options);
    this.#form = form;
    this.seed.value = String(run.seed);
    this.slot.replaceChildren(form.box, el("label", { class: "fm-seed" }, tr("Seed "), this.seed));
    return form;
  }

  #start() {
    const run = this.#run;
    const step = this.#step;
    if (this.go.disabled || !run || !step) return;
    const choice = this.#choice(run, step);
    if (!this.typed.value && !choice) return this.#problem(tr("Choose a token or type a text."));
    const question = this.#question(run, step, choice, this.#ensureForm(run).ask());
    if (store.busy(question.strategy)) return this.#problem(`${ALREADY_RUNNING}.`);
    rememberRun(run);
    this.#asked = ++number;
    this.go.disabled = true;
    this.say.className = "dp-status";
    this.say.textContent = tr("Starting…");
    waiting.set(this.#asked, (answer) => this.#handleAnswer(answer, question));
    const asked = { number: this.#asked, ...question };
    beginJob(question.strategy, async (more) => send?.({ ...(await withMedia(asked)), ...more }));
  }

  /**
   * Return the request: with the kept ids and their texts, as the server does not look a parent up.
   * @param {Run} run
   * @param {Step} step
   * @param {Choice | undefined} choice needed without a typed text
   * @param {Record<string, any>} controls values of the form
   * @returns {Record<string, any>}
   */
  #question(run, step, choice, controls) {
    const kept = this.#keptIds(run, step, choice);
    const ids = [...run.prompt_ids, ...kept];
    const put = this.typed.value ? { text: this.typed.value } : { token_id: choice?.token_id };
    return {
      prompt_ids: run.prompt_ids,
      kept_ids: kept,
      step: step.index,
      run_id: run.id,
      earlier: countBranchTokens(run),
      chat: !!run.messages,
      end_ids: run.eos_token_ids,
      pieces: Object.fromEntries(ids.map((id) => [id, run.pieces[id]])),
      ...serverFields(run, step),
      ...put,
      ...controls,
      ...runMediaNames(run),
      seed: this.seed.value === "" ? null : Number(this.seed.value),
    };
  }

  /**
   * @param {any} answer
   * @param {Record<string, any>} question
   */
  #handleAnswer(answer, question) {
    this.go.disabled = this.#blocked();
    this.say.textContent = "";
    if (answer.error) {
      // No run has started in the branch's tab, so clear its activity.
      if (!store.activity(question.strategy)?.run) store.act(question.strategy, null);
      return this.#problem(answer.error);
    }
    this.typed.clear();
    this.#wanted = null;
    if (question.strategy !== this.ctx.strategy) openTab(question.strategy);
    redrawTrees();
  }

  /** @param {string} sentence */
  #problem(sentence) {
    this.say.className = "dp-status bad";
    this.say.textContent = said(sentence);
  }

  #blocked() {
    const run = this.#run;
    if (!run || !send || !run.model.id) return true;
    return !!run.model.is_encoder_decoder || !run.steps.length || lacksIds(run);
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
    if (lacksIds(run)) this.#problem(UNKNOWN_IDS);
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
      title: strategyTitle(askedStrategy(run)),
    });
    this.#listed = "";
    // A typed text would need the model's tokenizer here.
    this.typed.input.hidden = !!run.served;
    this.typed.clear();
    // Another run's model has other special tokens.
    this.typed.special.look();
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
