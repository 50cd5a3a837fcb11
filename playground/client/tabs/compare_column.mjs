// A column of a comparison: its settings in the drawer, and its text, one stage per seed.
import { createSideView, describeSide } from "../../../visualizers/compare/divergence.mjs";
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { isOnServer } from "../../../visualizers/shared/record.mjs";
import { quoteText, tokenLabel } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { weightsSentence, weightsSummary } from "../forms/model_picker.mjs";
import { said as inWords } from "../forms/settings.mjs";
import { createStrategyForm } from "../forms/strategy_form.mjs";
import { askedStrategy } from "../runs/related_runs.mjs";
import { stages, store } from "../shell/page_state.mjs";
import { getStrategy } from "../shell/spec.mjs";
import { columnWatchers } from "./compare_observer.mjs";

/** @import { StartForm } from "../forms/strategy_form.mjs" */
/** @import { Parting } from "./compare_summary.mjs" */

const VIEWS = ["status", "strip", "compare_watch"];
const QUIET_STATUSES = ["recorded", "finished"];

/** @typedef {{ key: string, stage: HTMLElement }} SeedStage */

/**
 * What a column reports to its comparison.
 * @typedef {object} ColumnEvents
 * @property {() => void} remove the visitor removes the column
 * @property {() => void} edited its settings changed
 * @property {(place: number) => void} moved the visitor selected a token of its text
 * @property {() => void} changed a run of it changed
 */

export class CompareColumn {
  /** @type {SeedStage[]} */
  #stages = [];
  // Place of the seed whose text is shown.
  #shown = 0;
  /** @type {number | null} the step that the visitor selected last */
  #selected = null;
  #title = el("b", { class: "cmp-title" });
  #dials = el("span", { class: "cmp-dials" });
  #stageBox = el("div", { class: "cmp-stages" });
  #side = el("div", { class: "cmp-side" });
  weights = el("span", { class: "cmp-weights" });

  /**
   * @param {string} label
   * @param {StartForm} start
   * @param {ColumnEvents} events
   */
  constructor(label, start, events) {
    this.label = label;
    this.events = events;
    this.remove = createButton("✕", events.remove, {
      class: "dp-btn cmp-remove",
      "aria-label": tr("Remove column {label}", { label }),
    });
    this.form = createStrategyForm(tr("column {label}", { label }), start, () => this.#edited(), {
      addresses: true,
    });
    this.settings = el(
      "section",
      { class: "cmp-column", "aria-label": tr("Column {label}", { label }) },
      el("div", { class: "cmp-head" }, el("b", {}, label), this.weights, this.remove),
      this.form.box,
    );
    for (const kind of ["input", "change"])
      this.form.box.addEventListener(kind, () => this.#edited());
    this.text = el(
      "section",
      { class: "cmp-text", "aria-label": tr("Text {label}", { label }) },
      el("h3", { class: "cmp-heading" }, el("i", {}, label), this.#title, this.#dials),
      this.#stageBox,
      this.#side,
    );
    this.#showHead();
  }

  #edited() {
    this.#showHead();
    this.events.edited();
  }

  /**
   * Forget all runs, so that messages of earlier ones are ignored.
   * @param {string} key of the stage of the first seed
   * @param {Context["trigger"]} trigger
   */
  renew(key, trigger) {
    this.trigger = trigger;
    this.#stages = [];
    this.#shown = 0;
    this.#selected = null;
    this.#stageBox.replaceChildren();
    this.#side.replaceChildren();
    this.addStages(key, 1);
    this.#showHead();
  }

  /**
   * Add stages until there is one for each seed.
   * @param {string} key of the stage of the first seed
   * @param {number} count
   */
  addStages(key, count) {
    for (let place = this.#stages.length; place < count; place++) {
      const own = place ? `${key}-${place}` : key;
      const stage = el("div", { class: "dp-stage cmp-stage", hidden: place !== this.#shown });
      this.#stageBox.append(stage);
      this.#stages.push({ key: own, stage });
      columnWatchers.set(own, {
        changed: () => this.#runChanged(place),
        selected: (run) => this.#shown === place && this.#stepSelected(run),
      });
      stages.mount(stage, { strategy: own, visuals: VIEWS }, this.trigger ?? (() => {}));
    }
  }

  /** @param {number} place of the seed */
  #runChanged(place) {
    const { key, stage } = this.#stages[place];
    const run = store.shown(key);
    if (run && !isOnServer(run)) this.form.ran(run);
    const quiet = run && QUIET_STATUSES.includes(run.status) && !run.notes?.length;
    stage.classList.toggle("cmp-quiet", Boolean(quiet));
    if (place !== this.#shown) return;
    this.#showHead();
    this.events.changed();
  }

  /**
   * A painted stage reports its selection again; a run in progress selects its newest step.
   * @param {Run} run
   */
  #stepSelected({ follow, selected, tokens }) {
    if (follow || selected === this.#selected) return;
    this.#selected = selected;
    this.events.moved((tokens[0] ?? []).findLastIndex(({ step }) => step === selected));
  }

  /**
   * Show the text of a seed.
   * @param {number} place of the seed
   */
  showSeed(place) {
    this.#shown = place;
    this.#selected = null;
    this.#stages.forEach(({ stage }, i) => {
      stage.hidden = i !== place;
    });
    this.#showHead();
  }

  /** The run that is shown, if it has begun. */
  get run() {
    return store.shown(this.#stages[this.#shown]?.key ?? "");
  }

  // Title and dials: those of the run shown, else those of the form.
  #showHead() {
    const { run } = this;
    const asked = this.form.ask();
    const { title, dials, params } = getStrategy(run ? askedStrategy(run) : asked.strategy);
    const values = run?.config ?? asked.params;
    this.#title.textContent = title;
    this.#dials.textContent = dials
      .filter((name) => values[name] !== null && values[name] !== undefined)
      .map((name) => `${params.find((p) => p.name === name)?.label} ${inWords(values[name])}`)
      .join(" · ");
    this.#showWeights(run);
  }

  /**
   * Show dtype and device: those of the run, else the changed weight settings.
   * @param {Run | undefined} run
   */
  #showWeights(run) {
    if (run && isOnServer(run)) {
      this.weights.textContent = tr("on a server");
      this.weights.title = run.served?.host ?? run.model.host;
      return;
    }
    const changed = Object.entries(this.form.changedWeights());
    const models = run?.model?.id ? [run.model, run.assistant].filter(Boolean) : [];
    const [own, draft] = models.map(weightsSummary);
    const ways =
      own && [own, draft && tr("draft {held}", { held: draft })].filter(Boolean).join(" · ");
    this.weights.textContent =
      ways ?? changed.map(([name, value]) => `${name} ${inWords(value)}`).join(", ");
    this.weights.title = models.map(weightsSentence).join(" ");
  }

  /**
   * Mark the tokens that all texts have in common, the first that differs, and the one that is
   * looked at; show what the run saw there.
   * @param {Parting} parting
   * @param {number | null} place index of the token that is looked at
   */
  mark({ common, at }, place) {
    const { run } = this;
    const line = this.#stages[this.#shown].stage.querySelector(".dp-strip > div");
    const nodes = line ? [...line.querySelectorAll(".dp-tok")] : [];
    nodes.forEach((node, i) => {
      node.classList.toggle("cmp-common", i < common);
      node.classList.toggle("cmp-different", i === at);
      node.classList.toggle("cmp-here", i === place);
    });
    this.#side.replaceChildren(...(run && place !== null ? createSide(run, place) : []));
  }
}

/**
 * The token that a run wrote at a place, and its candidates there.
 * @param {Run} run
 * @param {number} place
 */
function createSide(run, place) {
  const seen = describeSide(run, place);
  const word = seen.token && quoteText(tokenLabel(run, seen.token.id));
  const line = word
    ? [tr("Token {n}: ", { n: place + 1 }), el("b", { class: "cmp-word" }, word)]
    : tr("Token {n}", { n: place + 1 });
  return [el("p", { class: "cmp-place" }, line), createSideView(run, seen)];
}
