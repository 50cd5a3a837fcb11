// The form of one strategy, its models and settings, for a comparison's column or a branch.
import { el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { findStrategy, getDeclaration } from "../shell/spec.mjs";
import { Form, WEIGHTS_GROUP } from "./form.mjs";
import { ModelDefaults } from "./model_defaults.mjs";
import { ModelPicker } from "./model_picker.mjs";
import { changedValues } from "./settings.mjs";

let serial = 0;

class StrategyForm {
  // Changed settings by name. A setting that two strategies share keeps its value when the
  // visitor switches between them.
  #changedValues = {};

  constructor(label, start, changed) {
    this.label = label;
    this.changed = changed;
    this.box = el("div", { class: "cmp-form f-compact" });
    this.#draw(start.strategy, start.params || {});
    if (start.model) this.#choose(start.model, start.assistant);
    this.box.addEventListener("input", () => this.own.moved());
  }

  title() {
    return this.strategy.title;
  }

  // The values of all controls.
  ask() {
    return {
      strategy: this.strategy.name,
      ...this.models.values(),
      params: this.form.values(),
    };
  }

  // The same, with only those parameters that differ from the strategy's defaults.
  different() {
    const asked = this.ask();
    return { ...asked, params: changedValues(this.strategy.params, asked.params) };
  }

  // The changed weight settings, by parameter name.
  held() {
    const { weights } = this.form;
    const own = weights ? this.strategy.params.filter((p) => p.group === WEIGHTS_GROUP) : [];
    return changedValues(own, this.form.values());
  }

  /**
   * A run of this form changed: once it ends, its model's own defaults can be read.
   * @param {Run} run
   */
  ran(run) {
    this.own.ran(run);
  }

  #choose(model, assistant) {
    this.models.show(model, assistant);
    this.own.look(model);
  }

  #draw(name, given) {
    this.strategy = findStrategy(name) || getDeclaration().strategies[0];
    const id = `form-${++serial}`;
    this.models = new ModelPicker(this.strategy, id);
    this.form = new Form(this.strategy.params, id, given, {
      close: true,
      only: this.strategy.only,
    });
    this.models.params = () => this.form.values();
    // Once the model's inputs are known, its fields depend on them as on a new model.
    this.models.learned = () => this.box.dispatchEvent(new Event("change"));
    this.own = new ModelDefaults(
      this.strategy.name,
      id,
      () => this.form.values(),
      (values) => {
        this.form.take(values, "model");
        this.own.moved();
        this.changed();
      },
    );
    const { model } = this.models;
    model.box.addEventListener("change", () => this.own.look(model.value));
    const summary = el("summary", {}, tr("Parameters"));
    const settings = el("details", { class: "cmp-settings", open: true }, summary, this.form.box);
    const choice = this.#strategies();
    choice.addEventListener("change", () => {
      this.#rememberValues();
      this.#changeStrategy(choice.value);
      this.changed();
    });
    const parts = [choice, ...this.models.boxes, this.form.weights, this.own.box, settings];
    this.box.replaceChildren(...parts.filter((part) => part !== null));
  }

  // Switches the strategy and keeps a chosen model if the new strategy can use it.
  #changeStrategy(name) {
    const { model } = this.models.values();
    const chosen = model !== this.strategy.model;
    this.#draw(name, this.#changedValues);
    if (chosen && !(model in this.strategy.refused)) this.#choose(model);
  }

  #strategies() {
    const { name } = this.strategy;
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
    const values = this.form.values();
    for (const { name, value } of this.strategy.params)
      if (values[name] !== (value ?? "")) this.#changedValues[name] = values[name];
  }
}

export const createStrategyForm = (label, start, changed) =>
  new StrategyForm(label, start, changed);
