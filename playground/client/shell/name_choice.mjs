// A select of names with a last option that opens a text field for any other name.
import { el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

const OTHER_VALUE = "\u0000other";

/** @typedef {{ name: string, title: string, group?: string }} Named */

export class Choice {
  /**
   * @param {HTMLSelectElement} select
   * @param {string} label
   * @param {string} typed placeholder that says what may be typed
   * @param {{ takesOthers?: boolean, other?: string }} [options] takesOthers: whether a name may be
   *   typed; other: the last option
   */
  constructor(select, label, typed, { takesOthers = true, other = tr("Another…") } = {}) {
    this.takesOthers = takesOthers;
    this.other = other;
    this.select = select;
    select.addEventListener("change", () => this.#showTextInput());
    this.own = el("input", {
      type: "text",
      "aria-label": `${label}: ${typed}`,
      placeholder: typed,
      spellcheck: "false",
    });
    this.own.hidden = true;
  }

  #showTextInput() {
    this.own.hidden = this.select.value !== OTHER_VALUE;
    if (!this.own.hidden) this.own.focus();
  }

  /**
   * Fill the select. A name that cannot be used is listed, disabled, with the reason as its text.
   * @param {Named[]} names sorted by group
   * @param {Record<string, string>} [refused]
   */
  offer(names, refused = {}) {
    /** @type {Record<string, HTMLElement>} */
    const groups = {};
    const parts = [];
    for (const { name, title, group } of names) {
      const option = el(
        "option",
        { value: name, disabled: name in refused },
        name in refused ? said(refused[name]) : title,
      );
      if (group && !groups[group]) {
        groups[group] = el("optgroup", { label: said(group) });
        parts.push(groups[group]);
      }
      if (group) groups[group].append(option);
      else parts.push(option);
    }
    const other = el("option", { value: OTHER_VALUE, hidden: !this.takesOthers }, this.other);
    this.select.replaceChildren(...parts, other);
  }

  /**
   * Disable names that are already listed, with the reason as their text.
   * @param {Record<string, string>} refused
   */
  refuse(refused) {
    for (const option of this.select.options) {
      const { [option.value]: reason } = refused;
      if (reason) Object.assign(option, { disabled: true, textContent: said(reason) });
    }
  }

  get value() {
    return this.select.value === OTHER_VALUE ? this.own.value.trim() : this.select.value;
  }

  set value(name) {
    const known = [...this.select.options].some((option) => option.value === name);
    this.select.value = known ? name : OTHER_VALUE;
    this.own.value = known ? "" : name;
    this.own.hidden = known;
  }
}
