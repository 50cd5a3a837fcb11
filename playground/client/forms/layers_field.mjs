// The field that chooses layers of a model: half of them, or a list.
import { tr } from "../../../visualizers/shared/tr.mjs";
import { Choice } from "../shell/name_choice.mjs";
import { Field } from "./field.mjs";

const HALVES = [
  { name: "low", title: tr("Lower half of the layers") },
  { name: "high", title: tr("Upper half of the layers") },
];

/**
 * Return a choice as the field's value: a half, or a list, which is typed without brackets.
 * @param {string} chosen
 */
export function toLayers(chosen) {
  const isHalf = HALVES.some(({ name }) => name === chosen);
  return isHalf || !chosen || chosen.startsWith("[") ? chosen : `[${chosen}]`;
}

/**
 * Return a value as it is chosen or typed.
 * @param {unknown} value
 */
export const fromLayers = (value) => String(value ?? "").replace(/^\[(.*)\]$/, "$1");

export class LayersField extends Field {
  /**
   * @param {import("../shell/spec.mjs").Param} param
   * @param {string} id
   */
  constructor(param, id) {
    super(param, id);
    const select = /** @type {HTMLSelectElement} */ (this.input);
    this.choice = new Choice(select, param.label, tr("such as 2, 4, 6"), {
      other: tr("Only these layers…"),
    });
    this.choice.offer(HALVES);
    this.choice.own.addEventListener("input", () => this.compare());
    select.after(this.choice.own);
  }

  read() {
    return toLayers(this.choice.value);
  }

  /** @param {any} value */
  write(value) {
    this.choice.value = fromLayers(value);
  }
}
