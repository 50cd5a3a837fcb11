// A form of parameters: the main ones visible, each other group folded under its title.
import { el } from "../../../visualizers/shared/dom.mjs";
import { createTermMark } from "../../../visualizers/shared/terms.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { getDeclaration } from "../shell/spec.mjs";
import { ArgumentsField } from "./arguments_field.mjs";
import { Field } from "./field.mjs";
import { GrammarField } from "./grammar_field.mjs";
import { LayersField } from "./layers_field.mjs";
import { MethodField } from "./method_field.mjs";
import { dialLabel, isSameValue } from "./settings.mjs";

/** @typedef {import("../shell/spec.mjs").Param} Param */
/** @typedef {Record<string, { name: string, values: any[], why: string }>} Only */

/** @type {Partial<Record<Param["kind"], typeof Field>>} */
const FIELD_CLASSES = {
  method: MethodField,
  arguments: ArgumentsField,
  layers: LayersField,
  grammar: GrammarField,
};
export const WEIGHTS_GROUP = "weights";

/** @param {Param} param */
function describeDial(param) {
  const { label, name, term, help } = param;
  const plain = dialLabel(param);
  const technical = plain === label ? "" : el("span", { class: "f-technical" }, label);
  return [
    el("dt", {}, plain, technical, term ? createTermMark(term) : null),
    el("dd", { class: "f-help" }, `${help} (${name})`),
  ];
}

export class Form {
  // Values of all parameters. A parameter in a folded group has no field until it is opened.
  #values = new Map();
  #fields = new Map();
  // Group -> element in its title with the number of changed settings.
  #counts = new Map();
  #id;
  /** @type {Only} */
  #only = {};
  #outerFields = new Map();
  /** @type {string[]} */
  #dialNames = [];
  #isServed = false;
  // What the settings show of fields among the dials.
  /** @type {HTMLElement[]} */
  #rests = [];

  /**
   * @param {Param[]} params
   * @param {string} id prefix of the elements' ids
   * @param {Record<string, any>} [given] values other than those declared
   * @param {{ close?: boolean, only?: Only, seed?: Field, dials?: string[] }} [options]
   *   close: fold all groups together, to save space; only: parameters that have an effect only
   *   while another has one of certain values; seed: the seed's field, outside the form; dials:
   *   parameters with a box apart
   */
  constructor(params, id, given = {}, { close = false, only = {}, seed, dials = [] } = {}) {
    this.params = params;
    this.#id = id;
    this.#only = only;
    if (seed) this.#outerFields.set("seed", seed);
    this.show(given);
    // Weight settings are shown next to the model, apart from those that decide the text.
    this.weights = this.#folded(WEIGHTS_GROUP, getDeclaration().groups[WEIGHTS_GROUP]);
    this.#dialNames = dials;
    this.dials = el("div", { class: "f-dials" }, this.#drawDials());
    this.dialHelp = el("dl", { class: "f-dial-help" }, this.#dialParams().map(describeDial));
    for (const box of [this.dials, this.dialHelp]) box.hidden = !dials.length;
    this.box = el("div", { class: "f-form" }, this.#parts(close));
    for (const box of [this.weights, this.dials, this.box])
      box?.addEventListener("input", () => this.#update());
    this.#update();
  }

  // Updates everything that depends on the values.
  #update() {
    this.#updateDisabled();
    this.#count();
  }

  // Disables the fields that have no effect now, each with the reason.
  #updateDisabled() {
    for (const [name, { name: other, values, why }] of Object.entries(this.#only)) {
      const field = this.#fields.get(name) ?? this.#outerFields.get(name);
      const chosen = this.#fields.get(other)?.value ?? this.#values.get(other);
      field?.off(values.includes(chosen) ? "" : why);
    }
  }

  /** @param {boolean} close */
  #parts(close) {
    const { main, groups } = getDeclaration();
    const others = Object.entries(groups).filter(([group]) => group !== WEIGHTS_GROUP);
    const folded = others.map(([group, title]) => this.#folded(group, title));
    if (!close) return [...this.#rests, ...this.#drawn(main), ...folded];
    const more = el("summary", {}, tr("More parameters"));
    return [
      ...this.#rests,
      ...this.#drawn(main),
      el("details", { class: "f-group f-more" }, more, folded),
    ];
  }

  // The field of a custom generation method; the arguments' field needs it, so it comes first.
  get method() {
    return [...this.#fields.values()].find((field) => field instanceof MethodField);
  }

  #dialParams() {
    return this.#dialNames.flatMap((name) => this.params.find((p) => p.name === name) ?? []);
  }

  // There is no room for the glossary next to a dial: it is in the dials' help.
  #drawDials() {
    return this.#dialParams().map((param) => {
      const field = this.#fieldOf({ ...param, label: dialLabel(param), term: null });
      const { dial, rest } = field.split();
      if (rest) this.#rests.push(rest);
      return dial;
    });
  }

  /** @param {string} group */
  #drawn(group) {
    const members = this.params.filter(
      (p) => p.group === group && !this.#dialNames.includes(p.name),
    );
    // The method and its arguments come before other parameters.
    const first = members.filter(({ kind }) => kind in FIELD_CLASSES);
    const others = members.filter(({ kind }) => !(kind in FIELD_CLASSES));
    return [...first, ...others].map((param) => this.#fieldOf(param).box);
  }

  /** @param {Param} param */
  #fieldOf(param) {
    const Kind = FIELD_CLASSES[param.kind] ?? Field;
    const field = new Kind(param, `${this.#id}-${param.name}`);
    if (field instanceof ArgumentsField) field.follow(this.method);
    field.value = this.#values.get(param.name);
    this.#fields.set(param.name, field);
    return field;
  }

  /**
   * @param {string} group
   * @param {string} title
   */
  #folded(group, title) {
    if (!this.params.some((p) => p.group === group)) return null;
    const inside = el("div", { class: "f-form" });
    const count = el("span", { class: "f-count" });
    this.#counts.set(group, count);
    const box = el("details", { class: "f-group" }, el("summary", {}, title, count), inside);
    const draw = () => {
      inside.append(...this.#drawn(group));
      this.#updateDisabled();
    };
    box.addEventListener("toggle", draw, { once: true });
    return box;
  }

  #count() {
    const values = this.values();
    for (const [group, node] of this.#counts) {
      const changed = this.params.filter(
        (p) => p.group === group && !isSameValue(values[p.name], p.value),
      ).length;
      node.textContent = changed ? tr("· {changed} changed", { changed }) : "";
    }
  }

  // Parameter name -> value, of all parameters.
  values() {
    for (const [name, field] of this.#fields) this.#values.set(name, field.value);
    const values = Object.fromEntries(this.#values);
    if (this.#isServed)
      for (const { name, group, value } of this.params)
        if (group === WEIGHTS_GROUP) values[name] = value;
    return values;
  }

  /**
   * Take the weight settings away: those of a model that a server computes are not ours to choose.
   * @param {boolean} on
   */
  serve(on) {
    this.#isServed = on;
    if (this.weights) this.weights.hidden = on;
  }

  /**
   * Set these values and reset all others to their defaults.
   * @param {Record<string, any>} values
   */
  show(values) {
    for (const { name, value } of this.params) {
      const shown = name in values ? values[name] : value;
      this.#values.set(name, shown);
      if (this.#fields.has(name)) this.#fields.get(name).value = shown;
    }
    this.#update();
  }

  /**
   * Set these values and leave all others as they are.
   * @param {Record<string, any>} values
   */
  take(values) {
    for (const [name, value] of Object.entries(values)) {
      this.#values.set(name, value);
      if (this.#fields.has(name)) this.#fields.get(name).value = value;
    }
    this.#update();
  }
}
