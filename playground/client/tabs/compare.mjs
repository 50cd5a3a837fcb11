// The compare tab: two to four runs of one prompt, and the first token at which their texts differ.
import { hasEnded } from "../../../visualizers/compare/divergence.mjs";
import { createCompareFigures } from "../../../visualizers/compare/view.mjs";
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { parseMessage, said } from "../../../visualizers/shared/server_text.mjs";
import { makeVisible } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { Form } from "../forms/form.mjs";
import { MediaFields } from "../forms/media_fields.mjs";
import { Presets } from "../forms/presets.mjs";
import { PromptField } from "../forms/prompt_field.mjs";
import { changedValues } from "../forms/settings.mjs";
import { createStrategyForm } from "../forms/strategy_form.mjs";
import { beginJob, createJobButtons, receiveProgress } from "../jobs/job.mjs";
import { findPendingByLink } from "../jobs/pending_jobs.mjs";
import { fetchRecorded } from "../runs/recorded_runs.mjs";
import { buildFormLink, registerLink } from "../shell/address.mjs";
import { registerOtherTab } from "../shell/other_tabs.mjs";
import { stages, store } from "../shell/page_state.mjs";
import { withMedia } from "../shell/visitor_media.mjs";
import { columnWatchers } from "./compare_observer.mjs";
import {
  columnDetails,
  leadSentence,
  markTokens,
  pairList,
  showWeights,
} from "./compare_summary.mjs";

const KEY = "compare";
const VIEWS = ["status", "strip", "compare_watch", "candidates"];
const TITLE = tr("Where the texts diverge");
const EMPTY = tr(
  "Run all: the tokens common to every text are set apart, and the first that differs is marked with what each run saw there.",
);

const PROMPT_ROWS = 2;
const NUMBER_LIMIT = 1_073_741_824;

const createStage = () => el("div", { class: "dp-stage cmp-stage" });

/** @import { Column } from "./compare_summary.mjs" */
/** @import { StartForm } from "../forms/strategy_form.mjs" */
/** @typedef {Column & { node: HTMLElement, remove: HTMLButtonElement }} OwnColumn */

class Comparison {
  /** @type {OwnColumn[]} */
  #columns = [];
  // Number of the current comparison; the server repeats it in its messages.
  #number = Math.floor(Math.random() * 1e9);
  /** @type {Record<string, any> | null} the form of the last run, null for the recorded example */
  #latest = null;
  #dirty = false;
  // What to look at in the chosen preset.
  #shows = "";

  note = el("p", { class: "dp-status", role: "status" });
  prompt = new PromptField("compare-prompt", {
    rows: PROMPT_ROWS,
    go: () => this.#press(),
    models: () => this.#columns.map((c) => c.form.ask().model),
    forms: () => this.#columns.map((c) => c.form.parts.form),
  });
  media = new MediaFields("compare");
  seed = el("input", { type: "number", min: 0, step: 1, value: 0, "aria-label": tr("Seed") });
  base = el("select", { "aria-label": tr("Base model that judges all texts") });
  more = createButton(tr("Add a column"), () => this.#addOneMore());

  /**
   * @param {HTMLElement} root
   * @param {any} spec what the server declares for the page
   * @param {Context["trigger"]} trigger
   */
  constructor(root, spec, trigger) {
    this.spec = spec;
    this.trigger = trigger;
    const { params, only } = spec.weights;
    this.judge = new Form(params, "compare-judge", {}, { only });
    this.grid = el("div", { class: "cmp-grid" });
    this.part = el("section", { class: "dp-card cmp-part", "aria-label": TITLE });
    const results = el("div", { class: "cmp-results" });
    root.classList.add("dp-stage");
    root.replaceChildren(this.#ask(), this.grid, this.part, results);
    this.figures = createCompareFigures(results);
    this.#choose(spec.compare.presets[0]);
    registerOtherTab("compare", this);
    // A preset's hint no longer applies once the visitor changes the form.
    root.addEventListener("input", () => {
      if (this.note.textContent === this.#shows) this.note.textContent = "";
    });
    registerLink(root, () =>
      this.#latest ? buildFormLink("compare", this.#latest) : "?tab=compare",
    );
    this.#example().catch(() => {});
  }

  // Shows a recorded comparison until the visitor runs one.
  async #example() {
    const before = this.#number;
    const typed = JSON.stringify(this.#formValues());
    const { preset, columns, parting, figures } = await fetchRecorded("compare");
    const found = this.spec.compare.presets.find((/** @type {any} */ p) => p.key === preset);
    // Do not overwrite what the visitor typed, chose or started during the fetch.
    if (this.#number !== before || JSON.stringify(this.#formValues()) !== typed || !found) return;
    const bad = this.note.classList.contains("bad") ? this.note.textContent : "";
    this.#choose(found);
    /** @type {Run[]} */
    const runs = columns.map((/** @type {Recorded} */ column, /** @type {number} */ i) =>
      store.showTrace(this.#columns[i].key, column, "recorded"),
    );
    runs[runs.length - 1].parting = parting;
    // Select in every column the token at which the texts diverge.
    for (const run of runs) store.select(run, run.tokens[0][parting?.at ?? 0]?.step ?? 0);
    this.figures.show(figures);
    if (bad) this.#say(bad, true);
    else this.#say(tr("A recorded comparison. {shows}", { shows: found.shows }));
    this.#schedulePartingUpdate();
  }

  /**
   * Fill the form from a link and run it.
   * @param {{ form?: any }} found
   * @param {boolean} [itself] whether to begin what the link asks for
   */
  restore({ form }, itself = false) {
    if (!form) return;
    this.seed.value = form.seed;
    if (form.base) this.base.value = form.base;
    this.judge.show(form.base_weights ?? {});
    /** @type {Record<string, any>[]} */
    const columns = form.columns;
    this.#replace(
      columns.map((column) => ({ ...column, strategy: column.strategy, params: column.values })),
    );
    /** @param {string} kind */
    const given = (kind) => columns.map((column) => column[kind]).find(Boolean);
    const speech = Object.assign({}, ...columns.map((column) => column.speech));
    this.media.show({ image: given("image"), audio: given("audio"), speech });
    this.#updateMediaFields();
    this.prompt.show(form);
    if (itself) this.#press(true);
  }

  /** @param {string} error */
  refuse(error) {
    this.#say(said(error), true);
  }

  #ask() {
    const { spec } = this;
    this.prompt.area.classList.add("cmp-prompt");
    this.media.learned = () => this.#updateMediaFields();
    for (const { name, title, role } of spec.models)
      if (role === "target") this.base.append(el("option", { value: name }, title));
    store.watch({ active: (key) => key === KEY && this.#follow(store.activity(KEY)) });
    /** @param {any} preset */
    const load = (preset) => this.#choose(preset);
    /** @param {any} preset */
    const loadAndRun = (preset) => {
      this.#choose(preset);
      this.#press();
    };
    const tries = new Presets(spec.compare.presets, load, loadAndRun, tr("Comparisons to try")).box;
    tries.classList.add("cmp-presets");
    const line = el(
      "div",
      { class: "dp-row cmp-line" },
      createJobButtons(KEY, tr("Run all"), () => this.#press()),
      el("label", {}, tr("Seed"), this.seed),
      el("label", {}, tr("Judged by"), this.base),
      this.more,
    );
    const { weights } = this.judge;
    weights?.querySelector("summary")?.prepend(tr("The judge: "));
    const judge = weights && el("div", { class: "cmp-judge f-compact" }, weights);
    return el(
      "div",
      { class: "dp-card cmp-ask" },
      tries,
      this.media.box,
      this.prompt.box,
      line,
      judge,
      this.note,
    );
  }

  #addOneMore() {
    const last = this.#columns.at(-1);
    if (!last) return;
    this.#add(last.form.ask());
    this.#renewStages();
  }

  /** @param {StartForm} start */
  #add(start) {
    if (this.#columns.length >= this.spec.compare.labels.length) return;
    const label = this.spec.compare.labels[this.#columns.length];
    const held = el("span", { class: "cmp-weights" });
    const stage = createStage();
    const remove = createButton("✕", () => this.#drop(column), {
      class: "dp-btn cmp-remove",
      "aria-label": tr("Remove column {label}", { label }),
    });
    const form = createStrategyForm(tr("column {label}", { label }), start, () =>
      showWeights(column),
    );
    const node = el(
      "section",
      { class: "cmp-column", "aria-label": tr("Column {label}", { label }) },
      el("div", { class: "cmp-head" }, el("b", {}, label), held, remove),
      form.box,
      stage,
    );
    /** @type {OwnColumn} */
    const column = { label, held, stage, remove, form, node, key: "" };
    form.box.addEventListener("input", () => showWeights(column));
    form.box.addEventListener("change", () => this.#updateMediaFields());
    this.#columns.push(column);
    this.grid.append(column.node);
    this.#limit();
    this.#updateMediaFields();
  }

  /** @param {StartForm[]} starts */
  #replace(starts) {
    this.#columns = [];
    this.grid.replaceChildren();
    for (const start of starts) this.#add(start);
    this.#renewStages();
  }

  /** @param {OwnColumn} column */
  #drop(column) {
    this.#replace(this.#columns.filter((c) => c !== column).map((c) => c.form.ask()));
  }

  #limit() {
    this.more.disabled = this.#columns.length >= this.spec.compare.labels.length;
    for (const column of this.#columns) column.remove.hidden = this.#columns.length <= 2;
  }

  /** @param {any} preset */
  #choose(preset) {
    this.#replace(preset.columns);
    this.prompt.show(preset);
    this.#shows = preset.shows;
    this.#say(preset.shows);
  }

  // Gives the columns new stages and keys, so that messages of an earlier run are ignored.
  #renewStages(number = (this.#number + 1) % NUMBER_LIMIT) {
    this.#number = number;
    columnWatchers.clear();
    this.figures.clear();
    this.#columns.forEach((column, i) => {
      const stage = createStage();
      column.stage.replaceWith(stage);
      column.stage = stage;
      column.key = `compare-${this.#number}-${i}`;
      columnWatchers.set(column.key, () => {
        const run = store.shown(column.key);
        if (run) column.form.ran(run);
        showWeights(column);
        this.#schedulePartingUpdate();
      });
      showWeights(column);
      stages.mount(stage, { strategy: column.key, visuals: VIEWS }, this.trigger);
    });
    this.part.replaceChildren(el("h3", {}, TITLE), el("p", { class: "dp-empty" }, EMPTY));
  }

  // The values of all controls.
  #formValues() {
    return {
      ...this.prompt.ask(),
      seed: this.seed.value === "" ? null : Number(this.seed.value),
      base: this.base.value,
      base_weights: changedValues(this.spec.weights.params, this.judge.values()),
      columns: this.#columns.map((c) => this.#withMedia(c.form.ask())),
    };
  }

  /**
   * Add only the media that the column's model can read.
   * @param {{ model: string } & Record<string, any>} asked
   */
  #withMedia(asked) {
    return { ...asked, ...this.media.ask(asked.model) };
  }

  // Shows the media fields that the models of all columns need.
  #updateMediaFields() {
    this.media.follow(this.#columns.map((c) => c.form.ask().model));
    this.prompt.optional(this.media.any);
  }

  #press(linked = false) {
    if (!store.busy(KEY)) this.media.ready(() => this.#send(linked));
  }

  /** @param {boolean} linked */
  #send(linked) {
    const asked = this.#formValues();
    const columns = this.#columns.map((c) => this.#withMedia(c.form.different()));
    this.#latest = { ...asked, columns };
    const link = buildFormLink(KEY, this.#latest);
    // Keep the number of a run in progress: its messages carry that number.
    const going = linked ? findPendingByLink(link) : undefined;
    this.#renewStages(going?.number);
    const number = this.#number;
    /** @param {object} more */
    const send = async (more) =>
      this.trigger("input", { number, ...(await withMedia(asked)), ...more });
    beginJob(KEY, send, link, { linked, number });
  }

  /** @param {Activity | undefined} activity */
  #follow(activity) {
    if (activity) this.#say(said(activity.says));
    this.note.classList.toggle("busy", store.busy(KEY));
  }

  /** @param {string} text */
  #say(text, bad = false) {
    this.note.className = `dp-status${bad ? " bad" : ""}`;
    this.note.textContent = text;
  }

  // Several columns may change in one frame; compute the divergence once.
  #schedulePartingUpdate() {
    if (this.#dirty) return;
    this.#dirty = true;
    requestAnimationFrame(() => {
      this.#dirty = false;
      this.#showParting();
    });
  }

  #showParting() {
    const there = this.#columns.flatMap((column) => {
      const run = store.shown(column.key);
      return run?.steps.length ? [{ column, run }] : [];
    });
    const runs = there.map(({ run }) => run);
    // Columns run one after another, so the last run has the divergence of all.
    const found = runs.at(-1)?.parting;
    if (!found) return;
    const { at } = found;
    for (const { column } of there) markTokens(column, found);
    this.part.dataset.at = at === null ? "" : String(at);
    const over = runs.every(hasEnded) && runs.length === this.#columns.length;
    const [first] = runs;
    const shared = (first.tokens[0] || []).slice(0, found.common);
    const same = shared.map((t) => first.pieces[t.id] ?? "").join("");
    const sides = at === null ? [] : there.map(({ column, run }) => columnDetails(column, run, at));
    this.part.replaceChildren(
      el("h3", {}, TITLE),
      el("p", { class: "cmp-summary" }, leadSentence(found, over)),
      ...pairList(found, this.spec.compare.labels, over),
      ...(same ? [el("p", { class: "cmp-same" }, makeVisible(same))] : []),
      ...(at === null ? [] : [el("div", { class: "cmp-sides" }, sides)]),
    );
  }

  /** @param {string} text a message of the server, as JSON */
  receive(text) {
    if (!text) return;
    const message = parseMessage(text);
    if (message.number !== this.#number) return;
    receiveProgress(KEY, message);
    if (message.kind === "failed" && !message.stopped) this.#say(said(message.error), true);
    if (message.kind === "figures") {
      /** @type {string[]} */
      const notes = message.notes;
      this.note.textContent = [tr("Done."), ...notes.map((note) => said(note))].join(" ");
      this.figures.show(message);
    }
  }
}

/**
 * @param {HTMLElement} root
 * @param {any} spec what the server declares for the page
 * @param {Context["trigger"]} trigger
 */
export const mountComparison = (root, spec, trigger) => new Comparison(root, spec, trigger);
