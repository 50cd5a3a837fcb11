// One control of a form, made from a parameter's declaration, with its label, help and badge.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { said as inWords } from "../../../visualizers/shared/server_text.mjs";
import { createTermMark } from "../../../visualizers/shared/terms.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { isSameValue, said } from "./settings.mjs";

/** @typedef {import("../shell/spec.mjs").Param} Param */

const TEXT_KINDS = ["text", "arguments", "grammar"];
const SELECT_KINDS = ["method", "layers"];
const NOT_A_NUMBER = "not a number";

/**
 * Return the label of a choice.
 * @param {Param} param
 * @param {string} choice
 */
const choiceText = ({ named }, choice) =>
  named ? named(choice) : choice ? inWords(choice) : tr("off");

/**
 * Make the input element for a parameter's kind.
 * @param {Param} param
 * @param {Record<string, any>} attrs
 */
function createInput(param, attrs) {
  if (param.kind === "flag") return el("input", { ...attrs, type: "checkbox" });
  if (param.kind === "choice")
    return el(
      "select",
      attrs,
      (param.choices ?? []).map((c) => el("option", { value: c }, choiceText(param, c))),
    );
  if (SELECT_KINDS.includes(param.kind)) return el("select", attrs);
  const placeholder = param.placeholder ?? (param.optional ? tr("off") : null);
  if (TEXT_KINDS.includes(param.kind)) return el("textarea", { ...attrs, rows: 1, placeholder });
  const { minimum: min, maximum: max } = param;
  return el("input", { ...attrs, type: "number", min, max, step: "any", placeholder });
}

export class Field {
  /**
   * @param {Param} param
   * @param {string} id
   */
  constructor(param, id) {
    this.param = param;
    const input = `${id}-input`;
    const about = `${id}-help`;
    this.input = createInput(param, {
      id: input,
      "data-param": param.name,
      "aria-describedby": about,
    });
    this.slider = param.slider ? this.#sliderOf(param) : null;
    const label = el("label", { for: input }, param.label);
    this.help = el("p", { class: "f-help", id: about }, this.#helpText(param.help));
    this.mark = this.#markOf(param);
    const explained = param.term ? createTermMark(param.term) : null;
    const name = el("div", { class: "f-name" }, label, explained, this.mark);
    const parts = param.kind === "flag" ? [this.input, name] : [name, this.input];
    this.box = el("div", { class: `f-field f-${param.kind}`, id }, parts, this.slider, this.help);
    // A tooltip, for layouts without room for the help text.
    this.box.title = param.help;
    this.input.addEventListener("input", () => this.compare());
  }

  /**
   * Adds the parameter's name if its label differs.
   * @param {string} sentence
   */
  #helpText(sentence) {
    const { label, name } = this.param;
    return label === name ? sentence : `${sentence} (${name})`;
  }

  // The default value as text.
  get #first() {
    const { placeholder, value, choices } = this.param;
    return placeholder ?? (choices ? choiceText(this.param, value) : said(value));
  }

  /**
   * The badge: says that the value is not the default; a click restores the default.
   * @param {Param} param
   */
  #markOf({ label, value }) {
    const back = () => {
      this.value = value;
      this.input.dispatchEvent(new Event("input", { bubbles: true }));
      this.input.focus();
    };
    const first = this.#first;
    return createButton(tr("changed · reset"), back, {
      class: "f-mark",
      hidden: true,
      title: tr("Not the default, {first}. Press to go back to it.", { first }),
      "aria-label": tr("{label}: changed, back to {first}", { label, first }),
    });
  }

  /**
   * Split the field: what is shown among the dials, and what the settings show of it.
   * @returns {{ dial: HTMLElement, rest: HTMLElement | null }}
   */
  split() {
    return { dial: this.box, rest: null };
  }

  /** Update the badge: hidden while the value is the default. */
  compare() {
    const { kind, value } = this.param;
    this.mark.hidden = isSameValue(this.value, value ?? (kind === "flag" ? false : ""));
  }

  /** @param {Param} param */
  #sliderOf({ label, slider, step }) {
    const [min, max] = slider ?? [];
    const name = tr("{label}, slider", { label });
    const range = el("input", { type: "range", min, max, step, "aria-label": name });
    range.addEventListener("input", () => {
      this.#number.value = range.value;
      this.input.dispatchEvent(new Event("input", { bubbles: true }));
    });
    this.input.addEventListener("input", () => this.#slide(range));
    return range;
  }

  /**
   * Disable the control while it has no effect, and show the reason instead of its help.
   * @param {string} why empty to enable it
   */
  off(why) {
    const { help } = this.param;
    for (const input of [this.input, this.slider])
      if (input) /** @type {HTMLInputElement} */ (input).disabled = why !== "";
    this.box.classList.toggle("f-off", why !== "");
    this.help.textContent = this.#helpText(why || help);
    this.box.title = why || help;
  }

  /**
   * An empty value shows as the minimum: a range input without a value sits in its middle.
   * @param {HTMLInputElement} range
   */
  #slide(range) {
    range.value = this.#number.value === "" ? range.min : this.#number.value;
  }

  get #number() {
    return /** @type {HTMLInputElement} */ (this.input);
  }

  /** @returns {any} */
  get value() {
    return this.read();
  }

  set value(value) {
    this.write(value);
    this.compare();
  }

  /**
   * Return the value: a number, or "" for an empty field, which the server reads as off.
   * An integer too large to be exact in JavaScript stays a string.
   * @returns {any}
   */
  read() {
    const { kind } = this.param;
    if (kind === "flag") return this.#number.checked;
    if (kind !== "number") return this.input.value;
    if (this.#number.validity.badInput) return NOT_A_NUMBER;
    const number = Number(this.input.value);
    const exact = Number.isSafeInteger(number) || !Number.isInteger(number);
    return this.input.value === "" || !exact ? this.input.value : number;
  }

  /** @param {any} value */
  write(value) {
    if (this.param.kind === "flag") this.#number.checked = value === true;
    else this.input.value = String(value ?? "");
    if (this.slider) this.#slide(this.slider);
  }
}
