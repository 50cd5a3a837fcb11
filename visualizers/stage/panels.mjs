// Panels behind a row of tabs. Only open panels are drawn.
import { createButton, el } from "../shared/dom.mjs";
import { KEY_STEPS } from "../shared/keys.mjs";

let panelCount = 0;

/** @typedef {{ name: string, tab: HTMLElement, node: HTMLElement }} Panel */

export class Panels {
  /** @type {Panel[]} */
  #panels = [];
  #unfolded = 0;
  #opened;

  /**
   * All panels start closed; pressing the tab of the open one closes it.
   * @param {string} label of the row of tabs
   * @param {() => void} opened called when a panel opens
   */
  constructor(label, opened) {
    this.#opened = opened;
    this.tabs = el("div", {
      class: "dp-tabs",
      role: "tablist",
      "aria-label": label,
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
    for (const panel of this.#panels) this.#setPanelOpen(panel, panel.name === name);
    this.#opened();
  }

  /**
   * Show every panel, for example for printing.
   * @returns {() => void} restores the panels that were open, once nobody else needs all of them
   */
  unfold() {
    this.#unfolded += 1;
    for (const { node } of this.#panels) node.hidden = false;
    return () => {
      this.#unfolded -= 1;
      if (this.#unfolded) return;
      for (const { node, tab } of this.#panels)
        node.hidden = tab.getAttribute("aria-selected") !== "true";
    };
  }

  /**
   * @param {Panel} panel
   * @param {boolean} on
   */
  #setPanelOpen({ node, tab }, on) {
    node.hidden = !on;
    tab.setAttribute("aria-selected", String(on));
    tab.tabIndex = on ? 0 : -1;
  }

  /** @param {string} name */
  #choosePanel(name) {
    const panel = this.#panels.find((one) => one.name === name);
    if (!panel) return;
    if (panel.node.hidden) return this.open(name);
    this.#setPanelOpen(panel, false);
    panel.tab.tabIndex = 0;
  }

  /** @param {KeyboardEvent} event */
  #handleKey(event) {
    const step = KEY_STEPS[event.key];
    const at = this.#panels.findIndex((panel) => panel.tab === document.activeElement);
    if (step === undefined || at < 0) return;
    const last = this.#panels.length - 1;
    const next = this.#panels[Math.max(0, Math.min(last, at + step))];
    this.#panels[at].tab.tabIndex = -1;
    next.tab.tabIndex = 0;
    next.tab.focus();
    event.preventDefault();
  }
}
