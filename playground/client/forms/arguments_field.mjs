// The field of a custom method's own arguments: one control each, all stored as one JSON object.
import { el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { Field } from "./field.mjs";

/** @import { Param } from "../shell/spec.mjs" */

/** @typedef {import("./methods.mjs").Argument} Argument */
/** @typedef {import("./methods.mjs").Method} Method */

/** @type {Record<string, string>} */
const FIELD_KINDS = { bool: "flag", int: "number", float: "number" };
// JavaScript numbers are exact up to 15 digits.
const LONG_NUMBER = /\d{16}/;

const NOT_EDITABLE = tr("The JSON below cannot be shown here.");

/** @param {unknown} value */
const toJson = (value) => (value === undefined ? "" : JSON.stringify(value));

/**
 * Return the declaration of an argument's control, as ``Field`` takes it.
 * @param {Argument} argument
 * @returns {any}
 */
function toParam({ name, kind, default: first, required, told }) {
  const flag = kind === "bool";
  const words = kind === "str" && typeof first === "string" ? first : toJson(first ?? undefined);
  return {
    name,
    label: name,
    help:
      said(told) ||
      (kind === "json"
        ? tr("Not documented in the method's README. Enter JSON.")
        : tr("Not documented in the method's README.")),
    kind: FIELD_KINDS[kind] ?? "text",
    optional: false,
    term: null,
    value: flag ? first === true : "",
    placeholder: flag ? (first === true ? tr("on") : tr("off")) : required ? tr("needed") : words,
  };
}

export class ArgumentsField extends Field {
  /** @type {HTMLElement | null} the place of the first number among the dials */
  dial = null;
  #drawnKey = "";
  /** @type {Map<string, { field: Field, kind: string }>} */
  #controls = new Map();
  // Method name -> the arguments entered for it before another method was chosen.
  #valuesByMethod = new Map();
  // Argument name -> its value in the object, as JSON.
  #parts = new Map();

  /**
   * @param {Param} param
   * @param {string} id
   */
  constructor(param, id) {
    super(param, id);
    this.own = el("div", { class: "f-form me-arguments" });
    const parts = [...this.box.childNodes];
    this.title = el("p", { class: "me-title" });
    this.json = el(
      "details",
      { class: "f-group me-json" },
      el("summary", {}, tr("As JSON")),
      el("div", { class: "f-field f-text" }, parts),
    );
    this.box.append(this.title, this.own, this.json);
    this.box.classList.add("me-box");
    this.input.addEventListener("input", (event) => event.isTrusted && this.#fillControls());
    this.#draw(null);
  }

  /**
   * Show the arguments of the method chosen in another field, also after it changes.
   * @param {import("./method_field.mjs").MethodField | undefined} field of the method
   */
  follow(field) {
    if (!field) return;
    field.follow((found) => this.#draw(found));
    field.changed = (before, now) => {
      this.#valuesByMethod.set(before, this.value);
      this.value = this.#valuesByMethod.get(now) ?? "";
      this.input.dispatchEvent(new Event("input", { bubbles: true }));
    };
  }

  /** @param {any} value */
  write(value) {
    super.write(value);
    if (this.own) this.#fillControls();
  }

  split() {
    this.dial = el("div", { class: "me-dial" });
    return { dial: this.dial, rest: this.box };
  }

  /** @param {Method | null} found */
  #draw(found) {
    const key = JSON.stringify(found?.arguments ?? null);
    if (key === this.#drawnKey) return;
    this.#drawnKey = key;
    this.#controls.clear();
    const own = found?.arguments ?? [];
    const boxes = own.map((argument) => this.#controlOf(argument));
    const first = own.findIndex(({ kind }) => FIELD_KINDS[kind] === "number");
    if (this.dial) this.dial.replaceChildren(...(first < 0 ? [] : boxes.splice(first, 1)));
    this.own.replaceChildren(...boxes);
    this.title.textContent = own.length ? tr("Its arguments") : "";
    this.title.hidden = !own.length;
    if (!found) this.json.open = this.value !== "";
    this.#fillControls();
  }

  /** @param {Argument} argument */
  #controlOf(argument) {
    const field = new Field(toParam(argument), `${this.box.id}-${argument.name}`);
    field.input.removeAttribute("data-param");
    field.input.dataset.argument = argument.name;
    this.#controls.set(argument.name, { field, kind: argument.kind });
    field.input.addEventListener("input", (event) => {
      event.stopPropagation();
      this.#updateFromControl(argument.name);
    });
    return field.box;
  }

  // The parsed object, null if the text is not a JSON object.
  #parseObject() {
    if (!this.value.trim()) return {};
    try {
      const held = JSON.parse(this.value);
      return held && typeof held === "object" && !Array.isArray(held) ? held : null;
    } catch {
      return null;
    }
  }

  // Fills every control from the JSON text.
  #fillControls() {
    const held = LONG_NUMBER.test(this.value) ? null : this.#parseObject();
    for (const { field } of this.#controls.values()) field.off(held ? "" : NOT_EDITABLE);
    if (!held) {
      this.json.open = true;
      return;
    }
    this.#parts = new Map(Object.entries(held).map(([name, value]) => [name, toJson(value)]));
    for (const [name, { field, kind }] of this.#controls) {
      const value = held[name];
      const plain = kind === "json" || typeof value === "object" ? toJson(value) : value;
      field.value = value === undefined || value === null ? field.param.value : plain;
    }
  }

  /**
   * Writes one control's value into the JSON text; the other values keep their exact spelling.
   * @param {string} name
   */
  #updateFromControl(name) {
    const text = this.#controlJson(name);
    if (text === "") this.#parts.delete(name);
    else this.#parts.set(name, text);
    const all = [...this.#parts].map(([of, value]) => `${JSON.stringify(of)}: ${value}`);
    super.write(all.length ? `{${all.join(", ")}}` : "");
    this.input.dispatchEvent(new Event("input", { bubbles: true }));
  }

  /**
   * A control's value as JSON, empty for its default. Invalid JSON is sent as typed, so that the
   * server reports it.
   * @param {string} name
   */
  #controlJson(name) {
    const control = this.#controls.get(name);
    if (!control) return "";
    const { field, kind } = control;
    const { value } = field;
    if (value === field.param.value) return "";
    if (kind === "json") return value.trim();
    // Keep the typed digits: a long integer would lose precision as a JavaScript number.
    return kind === "int" && /^-?\d+$/.test(value) ? value : toJson(value);
  }
}
