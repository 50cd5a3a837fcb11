// A strategy of one's choice with its models and settings: a column of a comparison, or a branch.
import { el } from "../../visualizers/shared/dom.mjs";
import { Form } from "./form.mjs";
import { Models } from "./models.mjs";
import { changedOf } from "./settings.mjs";
import { declared, strategyOf } from "./spec.mjs";

let serial = 0;

class CompareForm {
  // Settings that were changed, by name: what two strategies share keeps its value when one is
  // chosen instead of the other.
  #kept = {};

  constructor(label, start, changed) {
    this.label = label;
    this.changed = changed;
    this.box = el("div", { class: "cmp-form f-compact" });
    this.#draw(start.strategy, start.params || {});
    if (start.model) this.models.show(start.model, start.assistant);
  }

  title() {
    return this.strategy.title;
  }

  // What the controls say.
  ask() {
    return {
      strategy: this.strategy.name,
      ...this.models.values(),
      params: this.form.values(),
    };
  }

  // What they say otherwise than the strategy does by itself.
  different() {
    const asked = this.ask();
    return { ...asked, params: changedOf(this.strategy.params, asked.params) };
  }

  #draw(name, given) {
    this.strategy = strategyOf(name) || declared().strategies[0];
    const id = `form-${++serial}`;
    this.models = new Models(this.strategy, id);
    this.form = new Form(this.strategy.params, id, given, {
      close: true,
      only: this.strategy.only,
    });
    this.models.params = () => this.form.values();
    const summary = el("summary", {}, "Parameters");
    const settings = el("details", { class: "cmp-settings", open: true }, summary, this.form.box);
    const choice = this.#strategies();
    choice.addEventListener("change", () => {
      this.#keep();
      this.#draw(choice.value, this.#kept);
      this.changed();
    });
    this.box.replaceChildren(choice, ...this.models.boxes, this.form.weights, settings);
  }

  #strategies() {
    const { name } = this.strategy;
    const options = declared().strategies.map((s) =>
      el("option", { value: s.name, selected: s.name === name }, s.title),
    );
    return el(
      "select",
      { "aria-label": `Strategy of ${this.label}`, "data-field": "strategy" },
      options,
    );
  }

  #keep() {
    const values = this.form.values();
    for (const { name, value } of this.strategy.params)
      if (values[name] !== (value ?? "")) this.#kept[name] = values[name];
  }
}

export const compareForm = (label, start, changed) => new CompareForm(label, start, changed);
