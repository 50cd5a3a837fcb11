// The form of one strategy, its models and settings, for a comparison's column or a branch.
import { el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { findStrategy, getDeclaration } from "../shell/spec.mjs";
import { Form, WEIGHTS_GROUP } from "./form.mjs";
import { ModelDefaults } from "./model_defaults.mjs";
import { ModelPicker } from "./model_picker.mjs";
import { changedValues } from "./settings.mjs";

let serial = 0;

/**
 * What a form is to show first.
 * @typedef {{ strategy: string, model?: string, assistant?: string, params?: Record<string, any> }} StartForm
 */

class StrategyForm {
  // Changed settings by name. A setting that two strategies share keeps its value when the
  // visitor switches between them.
  /** @type {Record<string, any>} */
  #changedValues = {};

  /**
   * @param {string} label
   * @param {StartForm} start
   * @param {() => void} changed
   * @param {{ addresses?: boolean }} options addresses: whether it may name a model behind an address
   */
  constructor(label, start, changed, options) {
    this.options = options;
    this.label = label;
    this.changed = changed;
    this.box = el("div", { class: "cmp-form f-compact" });
    this.parts = this.#draw(start.strategy, start.params || {});
    if (start.model) this.#choose(start.model, start.assistant, start.params);
    this.box.addEventListener("input", () => this.parts.own.moved());
  }

  title() {
    return this.parts.strategy.title;
  }

  // The values of all controls.
  ask() {
    return {
      strategy: this.parts.strategy.name,
      ...this.parts.models.values(),
      params: { ...this.parts.form.values(), ...this.parts.models.drawParams() },
    };
  }

  // The same, with only those parameters that differ from the strategy's defaults.
  changedForm() {
    const asked = this.ask();
    const changed = changedValues(this.parts.strategy.params, asked.params);
    return { ...asked, params: { ...changed, ...this.parts.models.drawParams() } };
  }

  // The changed weight settings, by parameter name.
  changedWeights() {
    const { weights } = this.parts.form;
    const own = weights ? this.parts.strategy.params.filter((p) => p.group === WEIGHTS_GROUP) : [];
    return changedValues(own, this.parts.form.values());
  }

  /**
   * A run of this form changed: once it ends, its model's own defaults can be read.
   * @param {Run} run
   */
  ran(run) {
    this.parts.own.ran(run);
  }

  /**
   * @param {string} model
   * @param {string} [assistant]
   * @param {Record<string, any>} [values]
   */
  #choose(model, assistant, values) {
    this.parts.models.show(model, assistant, values);
    this.parts.own.look(model);
  }

  /**
   * @param {string} name
   * @param {Record<string, any>} given values by parameter
   */
  #draw(name, given) {
    const strategy = findStrategy(name) || getDeclaration().strategies[0];
    const id = `form-${++serial}`;
    const models = new ModelPicker(strategy, id, this.options);
    const { only, dials } = strategy;
    const form = new Form(strategy.params, id, given, { close: true, only, dials });
    models.form = form;
    // Once the model's inputs are known, its fields depend on them as on a new model.
    models.learned = () => this.box.dispatchEvent(new Event("change"));
    const take = (/** @type {Record<string, any>} */ values) => {
      form.take(values);
      own.moved();
      this.changed();
    };
    const own = new ModelDefaults(strategy.name, id, () => form.values(), take);
    const { model } = models;
    model.box.addEventListener("change", () => own.look(model.value));
    const summary = el("summary", {}, dials.length ? tr("Further settings") : tr("Settings"));
    const settings = el("details", { class: "cmp-settings", open: true }, summary, form.box);
    const choice = this.#strategies(strategy.name);
    choice.addEventListener("change", () => {
      this.#rememberValues();
      this.#changeStrategy(choice.value);
      this.changed();
    });
    const parts = [choice, ...models.boxes, form.dials, settings, form.weights, own.box];
    this.box.replaceChildren(...parts.filter((part) => part !== null));
    return { strategy, models, form, own };
  }

  /**
   * Switches the strategy and keeps a chosen model if the new strategy can use it.
   * @param {string} name
   */
  #changeStrategy(name) {
    const { model } = this.parts.models.values();
    const chosen = model !== this.parts.strategy.model;
    this.parts = this.#draw(name, this.#changedValues);
    if (chosen && !this.parts.models.refuses(model)) this.#choose(model);
  }

  /** @param {string} name */
  #strategies(name) {
    const options = getDeclaration().strategies.map((s) =>
      el("option", { value: s.name, selected: s.name === name }, s.title),
    );
    return el(
      "select",
      { "aria-label": tr("Strategy of {label}", { label: this.label }), "data-field": "strategy" },
      options,
    );
  }

  #rememberValues() {
    const values = this.parts.form.values();
    for (const { name, value } of this.parts.strategy.params)
      if (values[name] !== (value ?? "")) this.#changedValues[name] = values[name];
  }
}

/**
 * @param {string} label
 * @param {StartForm} start
 * @param {() => void} changed
 * @param {{ addresses?: boolean }} [options]
 */
export const createStrategyForm = (label, start, changed, options = {}) =>
  new StrategyForm(label, start, changed, options);
