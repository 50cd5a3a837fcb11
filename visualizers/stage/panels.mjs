// Panels behind a row of tabs. Only open panels are drawn.
import { createButton, el } from "../shared/dom.mjs";

let panelCount = 0;

/** @type {Record<string, number>} */
const KEY_STEPS = { ArrowLeft: -1, ArrowRight: 1, Home: Number.NEGATIVE_INFINITY, End: Infinity };

/** @typedef {{ name: string, tab: HTMLElement, node: HTMLElement }} Panel */

export class Panels {
  /** @type {Panel[]} */
  #panels = [];
  #options;

  /**
   * @param {string} label of the row of tabs
   * @param {{ closed: boolean, opened: () => void, chosen?: (name: string) => void }} options
   *   closed: true if all panels start closed and each tab toggles its own panel;
   *   opened: called when a panel opens; chosen: called with the name of a pressed tab
   */
  constructor(label, options) {
    this.#options = options;
    this.tabs = el("div", {
      class: "dp-tabs",
      role: "tablist",
      "aria-label": label,
      "aria-multiselectable": options.closed ? "true" : null,
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#handleKey(event),
    });
    this.node = el("div", { class: "dp-panels" }, this.tabs);
  }

  /**
   * @param {string} name
   * @param {string} title
   * @param {HTMLElement} body
   */
  add(name, title, body) {
    const id = `dp-panel-${++panelCount}`;
    const tab = createButton(title, () => this.#choosePanel(name), {
      class: "dp-btn dp-panel-tab",
      role: "tab",
      id: `${id}-tab`,
      "aria-controls": id,
      "aria-selected": "false",
      tabindex: this.#panels.length ? -1 : 0,
    });
    const attrs = { id, class: "dp-panel", role: "tabpanel", "aria-labelledby": `${id}-tab` };
    const node = el("div", attrs, body);
    node.hidden = true;
    this.#panels.push({ name, tab, node });
    this.tabs.append(tab);
    this.node.append(node);
  }

  get names() {
    return this.#panels.map((panel) => panel.name);
  }

  /** @param {string} name */
  open(name) {
    for (const panel of this.#panels) {
      const on = panel.name === name || (this.#options.closed && !panel.node.hidden);
      this.#setPanelOpen(panel, on, panel.name === name);
    }
    this.#options.opened();
  }

  /**
   * Show every panel, for example for printing.
   * @returns {() => void} restores the panels that were open
   */
  unfold() {
    for (const { node } of this.#panels) node.hidden = false;
    return () => {
      for (const { node, tab } of this.#panels)
        node.hidden = tab.getAttribute("aria-selected") !== "true";
    };
  }

  /**
   * @param {Panel} panel
   * @param {boolean} on
   * @param {boolean} reached
   */
  #setPanelOpen({ node, tab }, on, reached) {
    node.hidden = !on;
    tab.setAttribute("aria-selected", String(on));
    tab.tabIndex = reached ? 0 : -1;
  }

  /** @param {string} name */
  #choosePanel(name) {
    const panel = this.#panels.find((one) => one.name === name);
    if (!panel) return;
    if (this.#options.closed && !panel.node.hidden) return this.#setPanelOpen(panel, false, true);
    this.#options.chosen?.(name);
    this.open(name);
  }

  /** @param {KeyboardEvent} event */
  #handleKey(event) {
    const step = KEY_STEPS[event.key];
    const at = this.#panels.findIndex((panel) => panel.tab === document.activeElement);
    if (step === undefined || at < 0) return;
    const last = this.#panels.length - 1;
    const next = this.#panels[Math.max(0, Math.min(last, at + step))];
    next.tab.focus();
    if (!this.#options.closed) this.#choosePanel(next.name);
    event.preventDefault();
  }
}
