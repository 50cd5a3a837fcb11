// The compare tab: two to four runs of one prompt, and the first token at which their texts differ.
import { hasEnded } from "../../../visualizers/compare/divergence.mjs";
import { createCompareFigures } from "../../../visualizers/compare/view.mjs";
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { parseMessage, said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { Form } from "../forms/form.mjs";
import { MediaFields } from "../forms/media_fields.mjs";
import { Presets } from "../forms/presets.mjs";
import { PromptField } from "../forms/prompt_field.mjs";
import { changedValues } from "../forms/settings.mjs";
import { beginJob, createJobButtons, receiveProgress } from "../jobs/job.mjs";
import { findPendingByLink } from "../jobs/pending_jobs.mjs";
import { fetchRecorded } from "../runs/recorded_runs.mjs";
import { buildFormLink, registerLink } from "../shell/address.mjs";
import { createMenu } from "../shell/menu.mjs";
import { registerOtherTab } from "../shell/other_tabs.mjs";
import { store } from "../shell/page_state.mjs";
import { withMedia } from "../shell/visitor_media.mjs";
import { CompareColumn } from "./compare_column.mjs";
import { columnWatchers } from "./compare_observer.mjs";
import { collectMedia, createComparePage } from "./compare_page.mjs";
import { createVerdict } from "./compare_summary.mjs";

const KEY = "compare";
const PROMPT_ROWS = 1;
const NUMBER_LIMIT = 1_073_741_824;

/** @import { CompareFigures } from "../../../visualizers/compare/view.mjs" */
/** @import { StartForm } from "../forms/strategy_form.mjs" */

class Comparison {
  /** @type {CompareColumn[]} */
  #columns = [];
  // Number of the current comparison; the server repeats it in its messages.
  #number = Math.floor(Math.random() * 1e9);
  /** @type {Record<string, any> | null} the form of the last run, null for the recorded example */
  #latest = null;
  #dirty = false;
  // What to look at in the chosen preset.
  #shows = "";
  /** @type {CompareFigures | null} */
  #figures = null;
  /** @type {number | null} index of the token that the visitor looks at, null for the first difference */
  #place = null;

  note = el("p", { class: "dp-status", role: "status" });
  prompt = new PromptField("compare-prompt", {
    rows: PROMPT_ROWS,
    go: () => this.#press(),
    models: () => this.#columns.map((c) => c.form.ask().model),
    forms: () => this.#columns.map((c) => c.form.parts.form),
  });
  media = new MediaFields("compare");
  seeds = el("input", {
    type: "text",
    value: "0",
    inputmode: "numeric",
    "aria-label": tr("Seeds"),
  });
  base = el("select", { "aria-label": tr("Base model that judges all texts") });
  more = createButton(tr("Add a column"), () => this.#addOneMore());
  texts = el("div", { class: "cmp-texts" });
  settings = el("div", { class: "cmp-grid" });
  seed = el("select", { id: "compare-seed" });
  chosenSeed = el("p", { class: "cmp-seed", hidden: true });

  /**
   * @param {HTMLElement} root
   * @param {any} spec what the server declares for the page
   * @param {Context["trigger"]} trigger
   */
  constructor(root, spec, trigger) {
    this.spec = spec;
    this.trigger = trigger;
    const { params, only } = spec.weights;
    this.verdict = createVerdict(spec);
    this.judge = new Form(params, "compare-judge", {}, { only });
    this.chosenSeed.append(el("label", { for: this.seed.id }, tr("Texts of seed")), this.seed);
    this.seed.addEventListener("change", () => this.#showSeed(this.seed.selectedIndex));
    const measures = el("div", { class: "cmp-results" });
    const more = el("div", { class: "cmp-more" });
    root.classList.add("dp-stage");
    root.replaceChildren(...this.#createPage(measures, more));
    this.figures = createCompareFigures(measures, more);
    this.#load(spec.compare.presets[0]);
    registerOtherTab("compare", this);
    // A preset's hint no longer applies once the visitor changes the form.
    root.addEventListener("input", () => {
      if (this.note.textContent === this.#shows) this.note.textContent = "";
    });
    registerLink(root, () =>
      this.#latest ? buildFormLink("compare", this.#latest) : "?tab=compare",
    );
  }

  /**
   * Show the recorded texts of the chosen preset, unless the columns have changed since.
   * @param {any} preset
   */
  async #example(preset) {
    const before = this.#number;
    const found = await fetchRecorded(preset.recorded).catch(() => null);
    if (this.#number !== before) return;
    if (!found) return this.#say(tr("The recorded run could not be fetched."), true);
    const { columns, parting, figures } = found;
    /** @type {Run[]} */
    const runs = columns.map((/** @type {Recorded} */ column, /** @type {number} */ i) =>
      store.showTrace(this.#columnKey(i), column, "recorded"),
    );
    runs[runs.length - 1].parting = parting;
    this.#showFigures(figures);
    if (!this.note.classList.contains("bad"))
      this.#say(tr("A recorded comparison. {shows}", { shows: preset.shows }));
    this.#schedulePartingUpdate();
  }

  /**
   * Fill the form from a link and run it.
   * @param {{ form?: any }} found
   * @param {boolean} [itself] whether to begin what the link asks for
   */
  restore({ form }, itself = false) {
    if (!form) return;
    this.seeds.value = form.seed;
    if (form.base) this.base.value = form.base;
    this.judge.show(form.base_weights ?? {});
    /** @type {Record<string, any>[]} */
    const columns = form.columns;
    this.#replace(
      columns.map((column) => ({ ...column, strategy: column.strategy, params: column.values })),
    );
    this.media.show(collectMedia(columns));
    this.#updateMediaFields();
    this.prompt.show(form);
    if (itself) this.#press(true);
  }

  /** @param {string} error */
  refuse(error) {
    this.#say(said(error), true);
  }

  /**
   * @param {HTMLElement} measures
   * @param {HTMLElement} more
   */
  #createPage(measures, more) {
    const { spec } = this;
    this.prompt.area.classList.add("cmp-prompt");
    this.media.learned = () => this.#updateMediaFields();
    for (const { name, title, role } of spec.models)
      if (role === "target") this.base.append(el("option", { value: name }, title));
    store.watch({ active: (key) => key === KEY && this.#follow(store.activity(KEY)) });
    const { weights } = this.judge;
    const examples = new Presets(
      spec.compare.presets,
      (preset) => this.#load(preset),
      (preset) => {
        this.#choose(preset);
        this.#press();
      },
    );
    return createComparePage({
      media: this.media.box,
      prompt: this.prompt.box,
      buttons: createJobButtons(KEY, tr("Run all"), () => this.#press()),
      seeds: this.seeds,
      examples: createMenu(tr("Try"), examples.box),
      note: this.note,
      verdict: this.verdict.node,
      chosenSeed: this.chosenSeed,
      texts: this.texts,
      measures,
      settings: this.settings,
      add: this.more,
      judge: el("label", {}, tr("Judge"), this.base),
      weights: el("div", { class: "f-compact" }, weights),
      more,
    });
  }

  #addOneMore() {
    const last = this.#columns.at(-1);
    if (!last) return;
    this.#add(last.form.ask());
    this.#renewStages();
  }

  /** @param {StartForm} start */
  #add(start) {
    const { labels } = this.spec.compare;
    if (this.#columns.length >= labels.length) return;
    const column = new CompareColumn(labels[this.#columns.length], start, {
      remove: () => this.#drop(column),
      edited: () => this.#updateMediaFields(),
      moved: (place) => {
        this.#place = place;
        this.#schedulePartingUpdate();
      },
      changed: () => this.#schedulePartingUpdate(),
    });
    this.#columns.push(column);
    this.texts.append(column.text);
    this.settings.append(column.settings);
    this.#limit();
    this.#updateMediaFields();
  }

  /** @param {StartForm[]} starts */
  #replace(starts) {
    this.#columns = [];
    this.texts.replaceChildren();
    this.settings.replaceChildren();
    for (const start of starts) this.#add(start);
    this.#renewStages();
  }

  /** @param {CompareColumn} column */
  #drop(column) {
    this.#replace(this.#columns.filter((c) => c !== column).map((c) => c.form.ask()));
  }

  #limit() {
    this.more.disabled = this.#columns.length >= this.spec.compare.labels.length;
    for (const column of this.#columns) column.remove.hidden = this.#columns.length <= 2;
  }

  /** @param {any} preset whose form to show at once, and its recording as soon as it is there */
  #load(preset) {
    const { recorded, shows } = preset;
    if (recorded) {
      this.#choose(preset);
      this.#example(preset);
    } else
      this.#choose(preset, tr("{shows} This example is not recorded: press Run all.", { shows }));
  }

  /** @param {any} preset */
  #choose(preset, says = preset.shows) {
    this.#replace(preset.columns);
    this.prompt.show(preset);
    this.#shows = says;
    this.#say(says);
  }

  /** @param {number} column */
  #columnKey = (column) => `compare-${this.#number}-${column}`;

  // Gives the columns new stages and keys, so that messages of an earlier run are ignored.
  #renewStages(number = (this.#number + 1) % NUMBER_LIMIT) {
    this.#number = number;
    this.#figures = null;
    columnWatchers.clear();
    this.figures.clear();
    this.#columns.forEach((column, i) => {
      column.renew(this.#columnKey(i), this.trigger);
    });
    this.#useSeeds(["0"]);
    this.verdict.clear();
  }

  /**
   * Offer the texts of these seeds.
   * @param {string[]} seeds
   */
  #useSeeds(seeds) {
    this.seed.replaceChildren(...seeds.map((seed) => el("option", {}, seed)));
    this.chosenSeed.hidden = seeds.length < 2;
    this.#columns.forEach((column, i) => {
      column.addStages(this.#columnKey(i), seeds.length);
    });
    this.#showSeed(0);
  }

  /** @param {number} place of the seed */
  #showSeed(place) {
    this.#place = null;
    for (const column of this.#columns) column.showSeed(place);
    this.figures.showSeed(place);
    this.#schedulePartingUpdate();
  }

  // The values of all controls.
  #formValues() {
    return {
      ...this.prompt.ask(),
      seed: this.seeds.value.trim(),
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
    const columns = this.#columns.map((c) => this.#withMedia(c.form.changedForm()));
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
    const there = this.#columns.filter((column) => column.run?.steps.length);
    const runs = there.flatMap(({ run }) => run ?? []);
    // Columns run one after another, so the last run has the divergence of all.
    const found = runs.at(-1)?.parting;
    if (!found) return;
    const place = this.#place ?? found.at;
    for (const column of there) column.mark(found, place);
    const over = runs.every(hasEnded) && runs.length === this.#columns.length;
    this.verdict.show(found, over, this.#figures);
  }

  /** @param {CompareFigures} figures */
  #showFigures(figures) {
    this.#figures = figures;
    // A page that resumed the job lacks the message that named the seeds.
    const seeds = figures.seeds.map(({ seed }) => seed);
    if (seeds.length > this.seed.options.length) this.#useSeeds(seeds);
    this.figures.show(figures);
    this.#schedulePartingUpdate();
  }

  /** @param {string} text a message of the server, as JSON */
  receive(text) {
    if (!text) return;
    const message = parseMessage(text);
    if (message.number !== this.#number) return;
    receiveProgress(KEY, message);
    if (message.kind === "progress" && message.seeds?.length > 1) this.#useSeeds(message.seeds);
    if (message.kind === "failed" && !message.stopped) this.#say(said(message.error), true);
    if (message.kind === "figures") {
      /** @type {string[]} */
      const notes = message.notes;
      this.note.textContent = [tr("Done."), ...notes.map((note) => said(note))].join(" ");
      this.#showFigures(message);
    }
  }
}

/**
 * @param {HTMLElement} root
 * @param {any} spec what the server declares for the page
 * @param {Context["trigger"]} trigger
 */
export const mountComparison = (root, spec, trigger) => new Comparison(root, spec, trigger);
