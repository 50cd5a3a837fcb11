// The table of settings and prompts: bars of means, a tick for each seed, the verdict and the texts.
import { createButton, createScroller, el, saveAs } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import {
  formatPrecise,
  formatWholePercent,
  toCssLength,
} from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { createAsked } from "../../../visualizers/text/chat_turns.mjs";
import { runForm } from "../shell/tab_navigation.mjs";

/** @typedef {{ name: string, form: any, link: string, config: string, random: boolean }} TuneSetting */
/** @typedef {{ label: string, prompt: string | null, messages: any[] | null }} TunePrompt */
/** @typedef {{ settings: TuneSetting[], prompts: TunePrompt[], seeds: number[] }} TuneHead */
/** @typedef {{ setting: number, prompt: number, seed: number, text: string, ended: string, error: string, code: string | null }} TuneCell */
/** @typedef {{ mean: number | null, share: number, ticks?: number[] }} TuneBar */
/** @typedef {{ setting: number, all: TuneBar, cells: TuneBar[] }} TuneRow */
/** @typedef {{ name: string, label: string, is_share: boolean, verdict: string, rows: TuneRow[] }} TuneMeasure */

const MAX_TITLE = 24;

/** @param {string} label */
const shorten = (label) => (label.length > MAX_TITLE ? `${label.slice(0, MAX_TITLE)}…` : label);

export class TuneTable {
  /** @type {TuneHead | null} */
  #head = null;
  /** @type {TuneMeasure[]} */
  #view = [];
  /** @type {TuneMeasure | null} the votes of this visitor */
  #votes = null;
  /** @type {Map<string, TuneCell>} */
  #cells = new Map();
  #measure = "";
  /** @type {{ setting: number, prompt: number | null } | null} prompt: null for all */
  #chosen = null;

  constructor() {
    this.order = el("div", { class: "tn-order", role: "group", "aria-label": tr("Sort by") });
    this.verdict = el("p", { class: "cmp-lead tn-verdict", "aria-live": "polite" });
    this.table = el("div", { class: "tn-table" });
    this.drawer = el("section", { class: "tn-drawer", "aria-label": tr("Texts of the cell") });
    this.drawer.hidden = true;
    this.key = el(
      "p",
      { class: "cmp-key" },
      el("span", {}, el("i"), tr("mean of the seeds")),
      el("span", {}, el("u"), tr("one seed")),
    );
    this.box = el("div", { class: "tn-box" }, this.verdict, this.table, this.key, this.drawer);
    this.box.hidden = true;
  }

  /** @param {TuneHead} head */
  begin(head) {
    this.#head = head;
    this.#cells.clear();
    this.#chosen = null;
    this.#votes = null;
    this.box.hidden = false;
  }

  /** @param {{ cells: TuneCell[], view: TuneMeasure[] }} message */
  fill({ cells, view }) {
    for (const cell of cells) {
      const key = `${cell.setting}-${cell.prompt}-${cell.seed}`;
      // A text that was judged comes again without its code.
      this.#cells.set(key, { ...cell, code: cell.code ?? this.#cells.get(key)?.code ?? null });
    }
    this.#view = view;
    this.#draw();
  }

  /** Return the prompts, the texts so far, and for each setting whether they depend on the seed. */
  get texts() {
    return {
      prompts: this.#head?.prompts ?? [],
      cells: this.#cells.values(),
      random: this.#head?.settings.map(({ random }) => random) ?? [],
    };
  }

  get names() {
    return this.#head?.settings.map(({ name }) => name) ?? [];
  }

  /** @param {TuneMeasure | null} votes */
  addVotes(votes) {
    this.#votes = votes;
    if (votes) this.#measure = votes.name;
    this.#draw();
  }

  get #measures() {
    return this.#votes ? [...this.#view, this.#votes] : this.#view;
  }

  #draw() {
    const shown = this.#measures.find((one) => one.name === this.#measure) ?? this.#view[0];
    if (!shown || !this.#head) return;
    this.#measure = shown.name;
    this.#drawOrder();
    const words = said(shown.verdict);
    if (this.verdict.textContent !== words) this.verdict.textContent = words;
    const focused = document.activeElement?.getAttribute("data-cell");
    const { prompts } = this.#head;
    const titles = prompts.map(({ label }) =>
      el("th", { scope: "col", class: "tn-prompt", title: label }, shorten(label)),
    );
    const head = el(
      "tr",
      {},
      el("th", { scope: "col" }, tr("Setting")),
      titles,
      el("th", { scope: "col", class: "tn-all" }, tr("All prompts")),
    );
    const rows = shown.rows.map((row, place) => this.#createRow(shown, row, place));
    const table = el("table", {}, el("thead", {}, head), el("tbody", {}, rows));
    this.table.replaceChildren(createScroller(tr("Settings, in their order"), table));
    if (focused) this.#focusCell(focused);
    this.#drawDrawer();
  }

  /** @param {string} name */
  #focusCell(name) {
    const found = this.table.querySelector(`[data-cell="${name}"]`);
    if (found instanceof HTMLElement) found.focus({ preventScroll: true });
  }

  #drawOrder() {
    const buttons = this.#measures.map(({ name, label }) =>
      createButton(said(label), () => this.#sortBy(name), {
        class: "tn-by",
        "aria-pressed": String(name === this.#measure),
        "data-measure": name,
      }),
    );
    const had = this.order.contains(document.activeElement);
    this.order.replaceChildren(el("span", { class: "tn-hint" }, tr("Sort by")), ...buttons);
    if (had) buttons.find((one) => one.dataset.measure === this.#measure)?.focus();
  }

  /** @param {string} name */
  #sortBy(name) {
    this.#measure = name;
    this.#draw();
  }

  /**
   * @param {TuneMeasure} measure
   * @param {TuneRow} row
   * @param {number} place
   */
  #createRow(measure, row, place) {
    const name = this.#head?.settings[row.setting].name ?? "";
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, el("small", {}, String(place + 1)), said(name)),
      row.cells.map((bar, prompt) =>
        el("td", {}, this.#createCell(measure, row.setting, prompt, bar)),
      ),
      el("td", { class: "tn-all" }, this.#createCell(measure, row.setting, null, row.all)),
    );
  }

  /**
   * @param {TuneMeasure} measure
   * @param {number} setting
   * @param {number | null} prompt
   * @param {TuneBar} bar
   */
  #createCell(measure, setting, prompt, bar) {
    const pressed = this.#chosen?.setting === setting && this.#chosen.prompt === prompt;
    const value = formatMean(measure, bar.mean);
    const picture = el(
      "span",
      { class: "cmp-bar", "aria-hidden": "true" },
      bar.mean === null ? null : el("i", { style: { width: toCssLength(bar.share) } }),
      (bar.ticks ?? []).map((share) => el("u", { style: { left: toCssLength(share) } })),
    );
    const about = this.#describe(setting, prompt);
    return createButton(
      [picture, el("span", { class: "tn-value" }, value)],
      () => this.#choose(setting, prompt),
      {
        class: "tn-cell",
        "aria-pressed": String(pressed),
        "aria-label": `${about}: ${value}`,
        "data-cell": `${setting}-${prompt ?? "all"}`,
      },
    );
  }

  /**
   * @param {number} setting
   * @param {number | null} prompt
   */
  #describe(setting, prompt) {
    const name = said(this.#head?.settings[setting].name ?? "");
    return `${name} · ${prompt === null ? tr("all prompts") : (this.#head?.prompts[prompt].label ?? "")}`;
  }

  /**
   * @param {number} setting
   * @param {number | null} prompt
   */
  #choose(setting, prompt) {
    const again = this.#chosen?.setting === setting && this.#chosen.prompt === prompt;
    this.#chosen = again ? null : { setting, prompt };
    this.#draw();
  }

  #drawDrawer() {
    const chosen = this.#chosen;
    this.drawer.hidden = !chosen;
    if (!chosen || !this.#head) return;
    const texts = [...this.#cells.values()].filter(
      (cell) =>
        cell.setting === chosen.setting &&
        (chosen.prompt === null || cell.prompt === chosen.prompt),
    );
    texts.sort((a, b) => a.prompt - b.prompt || a.seed - b.seed);
    this.drawer.replaceChildren(
      el(
        "div",
        { class: "tn-head" },
        el("h3", {}, this.#describe(chosen.setting, chosen.prompt)),
        this.#createUses(this.#head.settings[chosen.setting], texts),
      ),
      ...texts.map((cell) => this.#createText(cell)),
    );
  }

  /**
   * @param {TuneSetting} setting
   * @param {TuneCell[]} texts
   */
  #createUses({ config, link }, texts) {
    const code = texts.find((cell) => cell.code)?.code;
    /** @param {string} text */
    const copy = (text) => navigator.clipboard?.writeText(text);
    const address = () => new URL(link, document.baseURI).href;
    return el(
      "div",
      { class: "tn-uses", role: "group", "aria-label": tr("Use these settings") },
      el("span", { class: "tn-hint" }, tr("Use these settings")),
      createButton(tr("Save generation_config.json"), () =>
        saveAs("generation_config.json", "application/json", config),
      ),
      code ? createButton(tr("Copy code"), () => copy(code)) : null,
      createButton(tr("Copy link"), () => copy(address())),
    );
  }

  /** @param {TuneCell} cell */
  #createText(cell) {
    const head = this.#head;
    const prompt = head?.prompts[cell.prompt];
    const random = head?.settings[cell.setting].random;
    return el(
      "p",
      { class: "tn-text" },
      random ? el("small", {}, tr("seed {n}", { n: cell.seed })) : null,
      el("span", { class: "dp-prompt" }, prompt ? createAsked(prompt) : ""),
      cell.error ? el("span", { class: "dp-status bad" }, said(cell.error)) : cell.text,
      " ",
      createButton(tr("Open in Explore"), () => this.#open(cell), { class: "dp-btn tn-open" }),
    );
  }

  /** @param {TuneCell} cell */
  #open(cell) {
    const form = this.#head?.settings[cell.setting].form;
    const prompt = this.#head?.prompts[cell.prompt];
    const { messages } = prompt ?? {};
    runForm({ ...form, prompt: prompt?.prompt, messages, seed: String(cell.seed) });
  }
}

/**
 * Return a mean in words.
 * @param {TuneMeasure} measure
 * @param {number | null} mean
 */
function formatMean({ is_share }, mean) {
  if (mean === null) return tr("not recorded");
  return is_share ? formatWholePercent(mean) : formatPrecise(mean);
}
