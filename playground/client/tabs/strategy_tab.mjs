// A strategy's tab: the form on the left, the run and its views on the right.
import { button, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { Field } from "../forms/field.mjs";
import { Form } from "../forms/form.mjs";
import { mountConfigs } from "../forms/generation_config.mjs";
import { MediaFields } from "../forms/media_fields.mjs";
import { isOfMethods } from "../forms/method_navigation.mjs";
import { OwnDefaults } from "../forms/model_defaults.mjs";
import { Models } from "../forms/model_picker.mjs";
import { Presets } from "../forms/presets.mjs";
import { PromptField } from "../forms/prompt_field.mjs";
import { ENDED, presetOf } from "../forms/settings.mjs";
import { MethodPanel } from "../inspect/method_panel.mjs";
import { goAndStop, pending, press, resume } from "../runs/press.mjs";
import { showRecorded } from "../runs/recorded_runs.mjs";
import { settingsMoved } from "../runs/settings_changes.mjs";
import { askLink, isOfPage, linked } from "../shell/address.mjs";
import { stages, store } from "../shell/page_state.mjs";
import { endedAt, keepEnded, pressOf } from "../shell/pending_runs.mjs";
import { ask, connectedAsk } from "../shell/questions.mjs";
import { declared, strategyOf } from "../shell/spec.mjs";
import { keepTab } from "../shell/strategy_tabs.mjs";
import { remember, withMedia } from "../shell/visitor_media.mjs";

const FIRST = { name: "", prompt: "Once upon a time,", seed: 0, params: {} };
const ANSWERED = ["finished", "stopped"];

const NARROW = matchMedia("(max-width: 799px)");

/**
 * Lay out a tab: its description, the prompt, the settings and the views. On a narrow screen the
 * form folds away behind a button; on a phone the settings come last.
 */
export function layout(root, title, words, { ask, right, settings }) {
  const told = typeof words === "string" ? el("p", {}, words) : words;
  const about = el("div", { class: "dp-about" }, el("h2", {}, title), told);
  const server = el("a", { href: "./audit" }, tr("About this server"));
  const set = el(
    "div",
    { class: "dp-settings" },
    settings,
    el("p", { class: "dp-server" }, server),
  );
  const left = el("div", { class: "dp-left" }, about, el("div", { class: "dp-ask" }, ask), set);
  const columns = el("div", { class: "dp-columns" });
  const fold = button(tr("Prompt and settings"), () => asking(!columns.matches(".asking")), {
    class: "dp-btn dp-fold",
    "aria-expanded": "false",
  });
  const asking = (on) => {
    columns.classList.toggle("asking", on);
    fold.setAttribute("aria-expanded", String(on));
  };
  left.addEventListener("keydown", (event) => event.key === "Escape" && asking(false));
  left.addEventListener("click", ({ target }) => {
    if (target instanceof Element && target.closest(".f-go")) asking(false);
  });
  columns.append(fold, left, el("div", { class: "dp-right" }, right));
  const arrange = () => (NARROW.matches ? columns : left).append(set);
  NARROW.addEventListener("change", arrange);
  arrange();
  root.replaceChildren(columns);
}

class StrategyTab {
  // Custom method of the latest run.
  #asked = "";
  // Time of the user's latest change to the form, as performance.now().
  #touched = -1;

  constructor(root, strategy, trigger) {
    this.strategy = strategy;
    this.trigger = trigger;
    const { name } = strategy;
    const stage = el("div", { class: "dp-stage" });
    const first = strategy.presets[0] || FIRST;
    this.models = new Models(strategy, name);
    const models = () => [this.models.values().model];
    this.prompt = new PromptField(`${name}-prompt`, { go: () => this.run(), models });
    this.media = new MediaFields(name);
    this.models.learned = () => this.#lookAtMedia();
    this.media.learned = this.models.learned;
    this.seed = new Field(declared().seed, `${name}-seed`);
    const { only } = strategy;
    this.form = new Form(strategy.params, name, {}, { only, seed: this.seed });
    this.models.params = () => this.form.values();
    this.own = new OwnDefaults(
      name,
      name,
      () => this.form.values(),
      (values) => {
        this.form.take(values, "model");
        this.#moved();
      },
    );
    const stop = (run) => trigger("stop", { run });
    const configs = el("div", { id: `${name}-configs`, class: "dp-configs" });
    const acts = goAndStop(name, tr("Run"), name, () => this.run(), stop);
    this.presets = new Presets(
      strategy.presets,
      (preset) => this.choose(preset),
      (preset) => {
        this.#touch();
        this.#fill(preset);
        this.run();
      },
    );
    // The one panel of the page that shows and edits a method's code.
    this.methods = isOfMethods(strategy) ? this.#methods() : null;
    layout(root, strategy.title, this.#about(), {
      ask: [this.media.box, this.prompt.box, acts, this.presets.box],
      right: [this.methods?.box, el("div", { id: `${name}-stage` }, stage)],
      settings: [
        this.models.boxes,
        this.form.weights,
        this.own.box,
        this.seed.box,
        this.form.box,
        configs,
      ].flat(),
    });
    this.#fill(first);
    this.#follow(root);
    this.#answers();
    const { visuals } = strategy;
    stages.mount(stage, { strategy: name, visuals, again: () => this.run() }, trigger);
    mountConfigs(configs, this);
    linked(root, () => this.#link());
    this.#goOn();
    this.#keepEnded();
    this.cameBack = this.#comeBack();
    this.welcomed = this.cameBack.then(() => this.welcome());
  }

  // Follow changes of the form, and the model facts that runs report.
  #follow(root) {
    root.addEventListener("input", () => {
      this.#touch();
      this.#moved();
    });
    // "change" fires when a model is chosen, and when a typed name loses the focus.
    this.models.model.box.addEventListener("change", () => this.#lookAtModel());
    store.watch({
      changed: (run) => {
        this.models.tell(store.shown(this.strategy.name)?.model);
        remember(run);
        if (run.strategy === this.strategy.name) this.own.ran(run);
      },
    });
  }

  #methods() {
    const { name } = this.strategy;
    const use = (method) => {
      this.#touch();
      this.form.take({ method, arguments: "" }, "yours");
      this.#moved();
    };
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

  #about() {
    const { summary, helps, turns, paper } = this.strategy;
    const more = (title, text) => el("details", {}, el("summary", {}, title), el("p", {}, text));
    return [
      el("p", {}, summary, " ", el("cite", {}, tr("Source: {paper}.", { paper }))),
      more(tr("When does it help, and when does it hurt?"), helps),
      more(tr("What does its main parameter do?"), turns),
    ];
  }

  // Fill in a preset. While the tab shows a recorded run, or none, also open the preset's own.
  choose(preset) {
    this.#touch();
    this.#fill(preset);
    const shown = store.shown(this.strategy.name);
    if (preset.recorded && (!shown || shown.entry)) this.open(preset.recorded);
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

  #touch() {
    this.#touched = performance.now();
  }

  // The link to the pending request, or to the run shown. An ended run adds its selected step.
  #link() {
    const { name } = this.strategy;
    const asked = pending(name);
    if (asked) return asked;
    const run = store.shown(name);
    const own = run?.entry ? `?trace=${run.entry}` : run?.link;
    if (!own) return `?tab=${name}`;
    const step =
      run.status === "running" || run.selected === null ? "" : `&step=${run.selected + 1}`;
    return own + step;
  }

  // Resume the run that was active when the page was reloaded, and fill the form from it.
  #goOn() {
    const { name } = this.strategy;
    const send = (more) => this.trigger("input", { strategy: name, ...more });
    if (!resume(name, send, pressOf(name))) return;
    this.#fillFrom(store.activity(name).run);
  }

  #fillFrom(id) {
    let filled = false;
    store.watch({
      changed: (run) => {
        if (filled || run.id !== id || !run.form) return;
        filled = true;
        this.show(run.form);
      },
    });
  }

  // Offer the text of an ended run as the next chat message.
  #answers() {
    const { name } = this.strategy;
    store.watch({
      changed: (run) => {
        if (run.id !== store.runId(name) || !ANSWERED.includes(run.status)) return;
        this.prompt.answered(run.form, run.outputs[0]?.text ?? "");
      },
    });
  }

  // Remember the latest ended run, so that a reloaded page shows it again.
  #keepEnded() {
    const { name } = this.strategy;
    store.watch({
      changed(run) {
        if (store.runId(name) === run.id && run.link && ENDED.includes(run.status))
          keepEnded(name, run.id);
      },
    });
  }

  async #comeBack() {
    const { name } = this.strategy;
    const id = endedAt(name);
    if (!id || store.busy(name)) return;
    await connectedAsk;
    const { state } = await ask({ action: "state", run: id });
    if (!state) return keepEnded(name, "");
    if (store.busy(name) || store.runId(name)) return;
    this.#fillFrom(id);
    store.receive(state);
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
      (name) => !isOfPage(name) && !["step", "pressed"].includes(name),
    );
    return names.every((name) => (asked.get(name) ?? "") === (own.get(name) ?? ""));
  }

  // Show the first preset's recorded run in a tab that has no run yet.
  welcome() {
    const { name, presets } = this.strategy;
    const recorded = store.runId(name) || store.busy(name) ? null : presets[0]?.recorded;
    return recorded ? showRecorded(name, recorded).catch(() => null) : Promise.resolve(null);
  }

  // Replace the parameters; prompt, models and seed stay.
  use(values, origin) {
    this.form.show(values, origin);
    this.#moved();
  }

  // After a change of the form: update everything that compares with it.
  #moved() {
    const { params, ...asked } = this.ask();
    this.presets.mark(presetOf({ ...asked, values: params }));
    settingsMoved(this.strategy.name);
    this.own.moved();
  }

  #lookAtModel() {
    this.own.look(this.models.values().model);
    this.#lookAtMedia();
  }

  // Show fields for the media that the model takes.
  #lookAtMedia() {
    this.media.follow([this.models.values().model]);
    this.prompt.optional(this.media.any);
  }

  #fill({ prompt, messages, template, image, audio, speech, model, seed, params }) {
    this.show({
      prompt,
      messages,
      template,
      image,
      audio,
      speech,
      model: model || this.strategy.model,
      assistant: this.strategy.assistant,
      seed,
      values: params,
    });
  }

  show({ prompt, messages, template, image, audio, speech, model, assistant, seed, values }) {
    this.models.show(model, assistant);
    this.media.show({ image, audio, speech });
    this.#lookAtMedia();
    this.prompt.show({ prompt, messages, template });
    this.seed.value = seed;
    this.form.show(values);
    const preset = presetOf({ ...this.ask(), values: this.form.values() });
    const origin = preset ? "preset" : "run";
    this.form.came(origin);
    this.seed.came(origin);
    this.#moved();
    this.#lookAtModel();
  }

  // Return the request that the controls describe.
  ask() {
    return {
      strategy: this.strategy.name,
      ...this.prompt.ask(),
      ...this.media.ask(),
      ...this.models.values(),
      seed: this.seed.value,
      params: this.form.values(),
    };
  }

  /**
   * Run the form. An edited method is saved first; without that nothing runs.
   * @param {boolean} [linked] whether a link requested the run
   */
  async run(linked = false) {
    const { method = "" } = this.form.values();
    this.#asked = method;
    if (this.methods?.unsaved(method) && !(await this.methods.save())) return;
    await this.media.ready(() => this.#send(linked));
  }

  #send(linked) {
    const asked = this.ask();
    const send = async (more) => this.trigger("input", { ...(await withMedia(asked)), ...more });
    press(this.strategy.name, send, askLink(asked), { linked });
  }
}

/** Create a strategy's tab in its element and register it. */
export function mountTab(root, name, trigger) {
  const tab = new StrategyTab(root, strategyOf(name), trigger);
  keepTab(name, tab);
  return tab;
}
