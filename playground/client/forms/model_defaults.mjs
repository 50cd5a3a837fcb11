// Compares a model's generation_config.json with the tab's defaults, with a button to apply it.
import { createButton, createScroller, el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { askWhenReady } from "../shell/questions.mjs";
import { findStrategy, getDeclaration } from "../shell/spec.mjs";
import { isAddressed } from "./model_address.mjs";
import { ENDED_STATUSES, isSameValue, said as worded } from "./settings.mjs";

/**
 * @typedef {{ name: string, label: string, value: any, default: any }} Differing
 */

/** @param {string} name */
const isEmbedded = (name) => getDeclaration().models.some((m) => m.name === name && m.embedded);

const PANEL_TITLE = tr("The model's own settings");

/** @param {number} count */
const matchingCountText = (count) =>
  count === 1
    ? tr("1 setting more: the same as the defaults here.")
    : tr("{count} settings more: the same as the defaults here.", { count });

/** The panel that compares a model's own settings with the form's and can apply them. */
export class ModelDefaults {
  #model = "";
  /** @type {Differing[]} */
  #differs = [];

  /**
   * @param {string} strategy
   * @param {string} id prefix of the element's id
   * @param {() => Record<string, any>} values the form's current values
   * @param {(values: Record<string, any>) => void} take applies values to the form
   */
  constructor(strategy, id, values, take) {
    this.strategy = strategy;
    this.values = values;
    this.take = take;
    this.box = el("section", {
      id: `${id}-own`,
      class: "defaults-box",
      "aria-label": PANEL_TITLE,
    });
    this.say = el("p", { class: "dp-note defaults-status", role: "status" });
    this.box.hidden = true;
  }

  /**
   * Ask again when a run ends: it may have downloaded a model whose file could not be read before.
   * @param {Run} run
   */
  ran(run) {
    if (ENDED_STATUSES.includes(run.status) && this.box.hidden) this.look(this.#model, true);
  }

  /**
   * Show a model's own settings. Does nothing if the model is already shown.
   * @param {string} model
   * @param {boolean} [again] ask even for the model already shown
   */
  async look(model, again = false) {
    if (model === this.#model && !again) return;
    this.#model = model;
    this.#differs = [];
    this.box.hidden = true;
    // Models embedded in this repository have no generation_config.json; that of a server is not here.
    if (!model || isEmbedded(model) || isAddressed(model)) return;
    const answer = await askWhenReady({ action: "defaults", strategy: this.strategy, model });
    if (model === this.#model) this.#render(answer);
  }

  /** @param {any} answer */
  #render({ error, differs = [], same: kept = 0, left_out: leftOut = [] }) {
    this.#differs = differs;
    this.box.hidden = !error && !differs.length && !kept && !leftOut.length;
    if (this.box.hidden) return;
    const all = differs.length === 1 ? tr("Use the model's value") : tr("Use the model's values");
    this.use = createButton(all, () => this.#applyValues(), { class: "dp-btn defaults-apply" });
    this.use.hidden = !differs.length;
    const none = differs.length ? "" : tr("This model's own defaults match the current settings.");
    const parts = [
      el("h3", { class: "dp-label" }, PANEL_TITLE),
      error ? el("p", { class: "dp-note bad" }, `⚠ ${said(error)}`) : null,
      differs.length ? this.#createTable() : null,
      el(
        "p",
        { class: "dp-note" },
        [none, kept ? matchingCountText(kept) : ""].filter(Boolean).join(" "),
      ),
      this.use,
      this.say,
      leftOut.length ? this.#createUnusedList(leftOut) : null,
    ];
    this.box.replaceChildren(...parts.filter((part) => part !== null));
    this.moved();
  }

  #createTable() {
    const heads = [tr("Setting"), tr("The model's"), tr("Default here")];
    const head = heads.map((text) => el("th", { scope: "col" }, text));
    const { params = [] } = findStrategy(this.strategy) ?? {};
    /** @param {string} name */
    const labelOf = (name) => params.find((param) => param.name === name)?.label;
    const row = (/** @type {any} */ { name, label, value, default: first }) =>
      el(
        "tr",
        { "data-param": name },
        el("th", { scope: "row" }, labelOf(name) ?? label),
        el("td", {}, worded(value)),
        el("td", {}, worded(first)),
      );
    const body = el("tbody", {}, this.#differs.map(row));
    const table = el("table", { class: "dp-table" }, el("thead", {}, el("tr", {}, head)), body);
    return createScroller(tr("The model's own settings, compared with the defaults"), table);
  }

  /** @param {string[]} sentences */
  #createUnusedList(sentences) {
    const title = tr("Not used here: {n} of its fields", { n: sentences.length });
    const list = sentences.map((text) => el("li", {}, said(text)));
    return el(
      "details",
      { class: "defaults-unused" },
      el("summary", {}, title),
      el("ul", {}, list),
    );
  }

  #applyValues() {
    this.take(Object.fromEntries(this.#differs.map(({ name, value }) => [name, value])));
  }

  // After a change of the form: update the button and the sentence.
  moved() {
    if (this.box.hidden || !this.#differs.length) return;
    const values = this.values();
    const taken = this.#differs.filter(({ name, value }) =>
      isSameValue(values[name], value),
    ).length;
    const whole = taken === this.#differs.length;
    /** @type {HTMLButtonElement} */ (this.use).disabled = whole;
    this.say.textContent = whole
      ? tr("The form has the model's values; a badge marks each.")
      : tr("Nothing of this is used unless you press the button.");
  }
}
