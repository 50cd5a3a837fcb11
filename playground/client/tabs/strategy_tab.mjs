// A strategy's tab: prompt, dials, the run's text and its views in one column.
import { el } from "../../../visualizers/shared/dom.mjs";
import { isOnServer } from "../../../visualizers/shared/record.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { Field } from "../forms/field.mjs";
import { Form } from "../forms/form.mjs";
import { mountSavedSettings } from "../forms/generation_config.mjs";
import { MediaFields } from "../forms/media_fields.mjs";
import { hasMethodParam } from "../forms/method_navigation.mjs";
import { ModelDefaults } from "../forms/model_defaults.mjs";
import { ModelPicker } from "../forms/model_picker.mjs";
import { Presets } from "../forms/presets.mjs";
import { PromptField } from "../forms/prompt_field.mjs";
import { findPreset } from "../forms/settings.mjs";
import { DialGrids } from "../inspect/dial_grids.mjs";
import { DialPreview } from "../inspect/dial_preview.mjs";
import { MethodPanel } from "../inspect/method_panel.mjs";
import { beginJob, createJobButtons, pendingLink } from "../jobs/job.mjs";
import { recordingInAddress, showRecorded } from "../runs/recorded_runs.mjs";
import { mountRunViews } from "../runs/run_views.mjs";
import { updateSettingsLine } from "../runs/settings_changes.mjs";
import { buildRunLink, isPageParameter, registerLink } from "../shell/address.mjs";
import { createMenu } from "../shell/menu.mjs";
import { store } from "../shell/page_state.mjs";
import { getDeclaration, getStrategy } from "../shell/spec.mjs";
import { registerStrategyTab } from "../shell/strategy_tabs.mjs";
import { mountStrategyLayout } from "../shell/tab_layout.mjs";
import { whenSelected } from "../shell/tab_navigation.mjs";
import { rememberMedia, withMedia } from "../shell/visitor_media.mjs";
import { restoreEnded, resumePending, watchEnded } from "./reopened_runs.mjs";
import { createAbout } from "./strategy_about.mjs";

const DEFAULT_PRESET = { name: "", prompt: "Once upon a time,", seed: 0, params: {} };
const ANSWERED_STATUSES = ["finished", "stopped"];

/**
 * What the strategy's tab asks for in which the visitor chose a prompt, a model or a seed last.
 * @type {any}
 */
let chosen = null;

export class StrategyTab {
  // Custom method of the latest run.
  #asked = "";
  // Time of the user's latest change to the form, as performance.now().
  #touched = -1;
  // What Run does first: start the branch of a link that did not start by itself.
  /** @type {(() => void) | null} */
  next = null;

  /**
   * @param {HTMLElement} root
   * @param {import("../shell/spec.mjs").StrategySpec} strategy
   * @param {Context["trigger"]} trigger
   */
  constructor(root, strategy, trigger) {
    this.strategy = strategy;
    this.trigger = trigger;
    const { name } = strategy;
    const stage = el("div", { class: "dp-stage" });
    const first = strategy.presets[0] || DEFAULT_PRESET;
    this.models = new ModelPicker(strategy, name, { addresses: true });
    const models = () => [this.models.values().model];
    const forms = () => [this.form];
    this.prompt = new PromptField(`${name}-prompt`, { go: () => this.run(), models, forms });
    this.media = new MediaFields(name);
    this.models.learned = () => this.#updateMedia();
    this.media.learned = this.models.learned;
    this.seed = new Field(getDeclaration().seed, `${name}-seed`);
    const { params, only, dials } = strategy;
    this.form = new Form(params, name, {}, { only, seed: this.seed, dials });
    this.preview = new DialPreview(strategy, this.form);
    this.models.form = this.form;
    this.own = new ModelDefaults(
      name,
      name,
      () => this.form.values(),
      (values) => {
        this.form.take(values);
        this.#updateAfterChange();
      },
    );
    const configs = el("div", { id: `${name}-configs`, class: "dp-configs" });
    const buttons = createJobButtons(name, tr("Run"), () => this.run());
    buttons[0].ariaKeyShortcuts = "Control+Enter";
    const acts = el("div", { class: "f-acts" }, buttons);
    this.presets = new Presets(
      strategy.presets,
      (preset) => this.choose(preset),
      (preset) => {
        this.#markTouched();
        this.#fillPreset(preset);
        this.run();
      },
    );
    // The one panel of the page that shows and edits a method's code.
    this.methods = hasMethodParam(strategy) ? this.#createMethodPanel() : null;
    this.#layOut(root, acts, configs, stage);
    this.#fillPreset(first);
    this.#watchChanges(root);
    this.#watchAnswers();
    const { visuals } = strategy;
    const turn = (/** @type {string} */ dial, /** @type {number} */ value) => {
      this.form.take({ [dial]: value });
      this.form.dials.dispatchEvent(new Event("input", { bubbles: true }));
    };
    const grids = new DialGrids();
    const options = { strategy: name, visuals, again: () => this.run(), turn, grids };
    mountRunViews(stage, options, trigger);
    mountSavedSettings(configs, this);
    registerLink(root, () => this.#pageAddress());
    resumePending(this);
    watchEnded(name);
    this.cameBack = restoreEnded(this);
    this.welcomed = Promise.all([this.cameBack, whenSelected(name)]).then(() => this.welcome());
  }

  /**
   * @param {HTMLElement} root
   * @param {HTMLElement} acts
   * @param {HTMLElement} configs
   * @param {HTMLElement} stage
   */
  #layOut(root, acts, configs, stage) {
    const { name, title } = this.strategy;
    const examples = createMenu(tr("Try"), this.presets.box);
    examples.hidden = this.presets.box.hidden;
    mountStrategyLayout(root, title, createAbout(this.strategy), {
      prompt: [this.media.box, this.prompt.box, acts],
      dials: this.form.dials,
      menu: examples,
      views: [this.methods?.box, el("div", { id: `${name}-stage` }, stage)],
      settings: [
        this.models.boxes,
        this.form.weights,
        this.own.box,
        this.seed.box,
        this.form.dialHelp,
        this.form.box,
        configs,
      ].flat(),
    });
  }

  /**
   * Follow changes of the form, and the model facts that runs report.
   * @param {HTMLElement} root
   */
  #watchChanges(root) {
    root.addEventListener("input", ({ target }) => {
      this.#markTouched();
      this.#updateAfterChange();
      if (target instanceof Node && this.prompt.box.contains(target)) this.next = null;
      const shared = [this.prompt.box, this.models.model.box, this.seed.box];
      if (target instanceof Node && shared.some((box) => box.contains(target))) chosen = this.ask();
    });
    // Also from a dial or a word of the text; the prompt has run it already.
    root.addEventListener("keydown", (event) => {
      const asked = event.key === "Enter" && (event.ctrlKey || event.metaKey);
      if (!asked || event.defaultPrevented || store.busy(this.strategy.name)) return;
      event.preventDefault();
      this.run();
    });
    // "change" fires when a model is chosen, and when a typed name loses the focus.
    this.models.model.box.addEventListener("change", () => this.#updateModel());
    store.watch({
      changed: (run) => {
        this.models.tell(store.shown(this.strategy.name));
        rememberMedia(run);
        if (run.strategy === this.strategy.name && !isOnServer(run)) this.own.ran(run);
      },
    });
  }

  /** Take over what the visitor chose in another strategy's tab, and its step of the same text. */
  takeOver() {
    const { name } = this.strategy;
    if (!chosen || chosen.strategy === name || store.busy(name)) return;
    const { strategy, prompt, messages, template, model, seed } = chosen;
    this.prompt.show({ prompt, messages, template });
    if (!this.models.refuses(model)) this.models.show(model, this.models.values().assistant);
    this.seed.value = seed;
    this.#updateAfterChange();
    this.#updateModel();
    const [before, now] = [store.shown(strategy), store.shown(name)];
    const sameText = before && now && now.prompt === before.prompt && !now.messages;
    if (sameText && before.selected !== null && before.selected < now.steps.length)
      store.select(now, before.selected);
  }

  #createMethodPanel() {
    const { name } = this.strategy;
    /** @param {string} method */
    const use = (method) => {
      this.#markTouched();
      this.form.take({ method, arguments: "" });
      this.#updateAfterChange();
    };
    /** @param {string} says */
    const done = (says) => {
      document.getElementById(`${name}-run`)?.focus({ preventScroll: true });
      if (says && !store.busy(name)) store.act(name, { run: "", phase: "stopped", says });
    };
    const made = new MethodPanel(`${name}-method-code`, use, () => this.form.values(), done);
    let known = "";
    store.watch({
      changed: (run) => {
        const said = `${run.id} ${run.error}`;
        this.form.method?.tell(store.shown(name)?.method);
        if (run.id !== store.runId(name) || said === known) return;
        known = said;
        if (run.error) made.failed(this.#asked, run.error);
      },
    });
    return made;
  }

  /**
   * Fill in a preset. While the tab shows a recorded run, or none, also open the preset's own.
   * @param {any} preset
   */
  choose(preset) {
    this.#markTouched();
    this.#fillPreset(preset);
    const { name } = this.strategy;
    const shown = store.shown(name);
    if (store.busy(name)) return;
    store.act(name, null);
    if (preset.recorded && (!shown || shown.entry)) this.open(preset.recorded);
    else if (!preset.recorded) {
      const says = tr("There is no recording of this example. Press Run to make it with {model}.", {
        model: this.models.title,
      });
      store.act(name, { run: "", phase: "stopped", says });
    }
  }

  /**
   * Show a recorded run and put its settings into the form, unless the user has changed it since.
   * @param {string} recorded its name
   * @param {number | null} [step] from 1
   * @param {number} [since] time of the request, as performance.now()
   */
  async open(recorded, step = null, since = performance.now()) {
    const run = await showRecorded(this.strategy.name, recorded, step);
    if (run?.form && this.#touched <= since) this.show(run.form);
    return run;
  }

  #markTouched() {
    this.#touched = performance.now();
  }

  // The link to the pending request, or to the run shown. An ended run adds its selected step.
  #pageAddress() {
    const { name } = this.strategy;
    const asked = pendingLink(name);
    if (asked) return asked;
    const run = store.shown(name);
    const own = run?.entry ? `?trace=${run.entry}` : run?.link;
    if (!run || !own) return `?tab=${name}`;
    const step =
      run.status === "running" || run.selected === null ? "" : `&step=${run.selected + 1}`;
    return own + step;
  }

  // Offer the text of an ended run as the next chat message.
  #watchAnswers() {
    const { name } = this.strategy;
    store.watch({
      changed: (run) => {
        if (run.id !== store.runId(name) || !ANSWERED_STATUSES.includes(run.status)) return;
        this.prompt.answered(run.form, run.outputs[0]?.text ?? "");
      },
    });
  }

  /**
   * Return whether the run shown is the one that an address asks for.
   * @param {string} search query part of the address
   */
  shows(search) {
    const { link } = store.shown(this.strategy.name) ?? {};
    if (!link) return false;
    const [asked, own] = [new URLSearchParams(search), new URLSearchParams(link)];
    const names = [...asked.keys(), ...own.keys()].filter(
      (name) => !isPageParameter(name) && !["step", "pressed"].includes(name),
    );
    return names.every((name) => (asked.get(name) ?? "") === (own.get(name) ?? ""));
  }

  // Show a recorded run in a tab that has no run yet: the one that the address names, else that of the
  // first preset.
  welcome() {
    const { name, presets } = this.strategy;
    const isFree = !store.runId(name) && !store.busy(name);
    const named = isFree ? recordingInAddress(name) : undefined;
    if (named) return this.open(named).catch(() => null);
    const recorded = isFree ? presets[0]?.recorded : null;
    return recorded ? showRecorded(name, recorded).catch(() => null) : Promise.resolve(null);
  }

  /**
   * Replace the parameters; prompt, models and seed stay.
   * @param {Record<string, any>} values
   */
  use(values) {
    this.form.show(values);
    this.#updateAfterChange();
  }

  // After a change of the form: update everything that compares with it.
  #updateAfterChange() {
    const { params, ...asked } = this.ask();
    this.presets.mark(findPreset({ ...asked, values: params }));
    updateSettingsLine(this.strategy.name);
    this.own.moved();
    this.preview.updateTracks();
  }

  #updateModel() {
    this.own.look(this.models.values().model);
    this.#updateMedia();
  }

  // Show fields for the media that the model takes.
  #updateMedia() {
    this.media.follow([this.models.values().model]);
    this.prompt.optional(this.media.any);
  }

  /** @param {Record<string, any>} preset */
  #fillPreset({ model, params, ...preset }) {
    const { model: usual, assistant } = this.strategy;
    this.show({ ...preset, model: model || usual, assistant, values: params });
  }

  /** @param {Record<string, any>} form the form of a run, of a link or of a preset */
  show({ prompt, messages, template, image, audio, speech, model, assistant, seed, values }) {
    this.next = null;
    this.preview.clear();
    this.models.show(model, assistant, values);
    this.media.show({ image, audio, speech });
    this.#updateMedia();
    this.form.show(values);
    this.prompt.show({ prompt, messages, template });
    this.seed.value = seed;
    this.#updateAfterChange();
    this.#updateModel();
  }

  // Return the request that the controls describe.
  ask() {
    return {
      strategy: this.strategy.name,
      ...this.prompt.ask(),
      ...this.media.ask(),
      ...this.models.values(),
      seed: this.seed.value,
      params: { ...this.form.values(), ...this.models.drawParams() },
    };
  }

  /**
   * Run the form. An edited method is saved first; without that nothing runs.
   * @param {boolean} [linked] whether a link requested the run
   */
  async run(linked = false) {
    const { method = "" } = this.form.values();
    if (this.next) return this.next();
    this.#asked = method;
    if (this.methods?.unsaved(method) && !(await this.methods.save())) return;
    await this.media.ready(() => this.#sendRequest(linked));
  }

  /** @param {boolean} linked */
  #sendRequest(linked) {
    this.preview.moveOffEdges();
    this.preview.clear();
    const asked = this.ask();
    if (!linked) chosen = asked;
    /** @param {object} more */
    const send = async (more) => this.trigger("input", { ...(await withMedia(asked)), ...more });
    beginJob(this.strategy.name, send, buildRunLink(asked), { linked });
  }
}

/**
 * Create a strategy's tab in its element and register it.
 * @param {HTMLElement} root
 * @param {string} name
 * @param {Context["trigger"]} trigger
 */
export function mountStrategyTab(root, name, trigger) {
  const tab = new StrategyTab(root, getStrategy(name), trigger);
  registerStrategyTab(name, tab);
  return tab;
}
