// A choice among names that can be left for a typed one.
import { el } from "../../visualizers/shared/dom.mjs";
import { said } from "../../visualizers/shared/said.mjs";
import { tr } from "../../visualizers/shared/tr.mjs";

const OTHER = "\u0000other";

/** @typedef {{ name: string, title: string, group?: string }} Named */

export class Choice {
  /**
   * @param {HTMLSelectElement} select
   * @param {string} label
   * @param {string} typed what may be typed
   */
  constructor(select, label, typed) {
    this.select = select;
    select.addEventListener("change", () => this.#opened());
    this.own = el("input", {
      type: "text",
      "aria-label": `${label}: ${typed}`,
      placeholder: typed,
      spellcheck: "false",
    });
    this.own.hidden = true;
  }

  #opened() {
    this.own.hidden = this.select.value !== OTHER;
    if (!this.own.hidden) this.own.focus();
  }

  /**
   * What cannot serve is shown, too, with the reason in its place.
   * @param {Named[]} names those of a group one after the other
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
    this.select.replaceChildren(...parts, el("option", { value: OTHER }, tr("Another…")));
  }

  /**
   * Say of names that are offered already that they cannot serve.
   * @param {Record<string, string>} refused
   */
  refuse(refused) {
    for (const option of this.select.options) {
      const { [option.value]: reason } = refused;
      if (reason) Object.assign(option, { disabled: true, textContent: said(reason) });
    }
  }

  get value() {
    return this.select.value === OTHER ? this.own.value.trim() : this.select.value;
  }

  set value(name) {
    const known = [...this.select.options].some((option) => option.value === name);
    this.select.value = known ? name : OTHER;
    this.own.value = known ? "" : name;
    this.own.hidden = known;
  }
}
