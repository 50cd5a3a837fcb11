// View of DoLa's layers: how likely each found the chosen word of the selected step, and the map of
// all steps with the contrasted layer outlined. Its numbers are folded.
import { el } from "../shared/dom.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { tr } from "../shared/tr.mjs";
import { cellText, createColumn, createContrast, createLayerTable } from "./column.mjs";
import { Grid } from "./grid.mjs";
import { createGrowth } from "./growth.mjs";
import { Heatmap } from "./heatmap.mjs";
import { isLayerStep, PROJECTION_NAMES, VALUE_NAMES } from "./values.mjs";

const SELECT_PAUSE_MS = 60;
const SMALL_MODEL_WARNING = tr(
  "The paper finds gains for models of 7 billion parameters and more and none for ones like GPT-2 (its appendix N). On a small model read this as a picture of how a prediction forms.",
);

/**
 * @param {Record<string, string>} options
 * @param {string} label
 * @param {(value: string) => void} set
 */
function createPicker(options, label, set) {
  const box = el(
    "select",
    { class: "lh-pick", "aria-label": label, onchange: () => set(box.value) },
    Object.entries(options).map(([value, name]) => el("option", { value }, name)),
  );
  return box;
}

/**
 * A sentence on what the map shows.
 * @param {Grid} grid
 */
function describeMap({ value, projection }) {
  const head =
    projection === "raw"
      ? tr(" (output head on the bare hidden state; DoLa decides on this).")
      : tr(" (the [logit lens]; DoLa itself decides on the bare hidden state).");
  /** @type {Record<string, string>} */
  const scales = {
    logprob: tr(" Values below −20 have the colour of −20."),
    rank: tr(" Rank 1 is best; the scale is logarithmic."),
    divergence: tr(
      " As DoLa measures it: averaged over the vocabulary, in nats, so its numbers are tiny and only their order counts.",
    ),
  };
  return tr(
    "Drawn: {value}, every layer read {how}{head} The framed cell of a step is the [premature layer|layer it was contrasted with]: the candidate layer with the greatest [JSD|Jensen–Shannon divergence] from the last.{scale}",
    {
      value: VALUE_NAMES[value],
      how: PROJECTION_NAMES[projection],
      head,
      scale: scales[value] ?? "",
    },
  );
}

/**
 * A note on requested layers that the model lacks, empty if there are none.
 * @param {Run} run
 */
function absentLayersText(run) {
  const { dola_layers: wanted } = run.config;
  const missing = Array.isArray(wanted) ? wanted.filter((l) => l >= run.model.layers) : [];
  return missing.length
    ? tr("Left out, because this model has layers 0 to {last}: {missing}.", {
        last: run.model.layers - 1,
        missing: missing.join(", "),
      })
    : "";
}

class LayerHeatmap {
  /** @type {Run | null} */
  #run = null;
  #selected = -1;
  /** @type {{ step: number, layer: number } | null} */
  #cell = null;
  #grid = new Grid("rank", "normed");
  // Set when another value or projection is chosen, which redraws without a new step.
  #changed = false;

  /**
   * @param {HTMLElement} root
   * @param {Context} ctx
   */
  constructor(root, ctx) {
    this.ctx = ctx;
    const note = () => el("p", { class: "dp-note" });
    this.map = new Heatmap(
      () => this.#currentPlot(),
      (step, layer) => this.#handleClick(step, layer),
    );
    this.growth = el("div", { class: "lg" });
    this.drawn = note();
    this.missing = note();
    this.readout = el("p", { class: "dp-note lh-cell", "aria-live": "polite" });
    this.column = el("div", { class: "lh-column" });
    this.contrast = el("div", { class: "lh-contrast" });
    this.tableBody = el("div", {});
    const opened = () => {
      if (this.more.open && this.#run)
        this.tableBody.replaceChildren(createLayerTable(this.#run, this.#grid.projection));
    };
    this.more = el(
      "details",
      { class: "lh-more", ontoggle: opened },
      el("summary", {}, tr("Table of every layer and step")),
      this.tableBody,
    );
    const warning = el("b", {}, tr("Not advised for small models. "));
    root.append(
      this.growth,
      this.map.node,
      this.readout,
      el(
        "details",
        { class: "dp-more lh-about" },
        el("summary", {}, tr("Colours and numbers of the layers")),
        el("p", { class: "lh-warn" }, warning, SMALL_MODEL_WARNING),
        this.#createControls(),
        this.drawn,
        this.missing,
        el("div", { class: "lh-under" }, this.column, this.contrast),
        this.more,
      ),
    );
  }

  #createControls() {
    const values = createPicker(VALUE_NAMES, tr("What the colour shows"), (value) =>
      this.#changeView(value, this.#grid.projection),
    );
    const projections = createPicker(
      PROJECTION_NAMES,
      tr("How a layer becomes a distribution"),
      (projection) => this.#changeView(this.#grid.value, projection),
    );
    return el(
      "div",
      { class: "dp-row lh-controls" },
      el("label", {}, tr("Colour: "), values),
      el("label", {}, tr("Layers read "), projections),
    );
  }

  /**
   * @param {string} value
   * @param {string} projection
   */
  #changeView(value, projection) {
    this.#grid = new Grid(value, projection);
    if (!this.#run) return;
    this.#changed = true;
    this.#grid.grow(this.#run);
    this.#showDescription(this.#run);
    this.map.schedule(0);
    this.#fillColumn();
    this.#fillCell();
  }

  #currentPlot() {
    const run = this.#run;
    if (!run || !this.#grid.z.length) return null;
    if (run.status === "running" && run.follow) this.#fillColumn();
    const selected = run.steps[this.#selected] ? this.#selected : null;
    return { grid: this.#grid, selected, id: run.id };
  }

  /**
   * @param {number} step
   * @param {number} layer
   */
  #handleClick(step, layer) {
    this.#cell = { step, layer };
    this.ctx.select(step);
    this.#fillCell();
  }

  #fillCell() {
    this.readout.textContent = cellText(this.#run, this.#cell, this.#grid.projection);
  }

  #fillColumn() {
    const run = this.#run;
    const step = run?.steps[this.#selected];
    if (!step || !isLayerStep(step)) return;
    const { value, projection } = this.#grid;
    this.growth.replaceChildren(...createGrowth(run, step));
    this.column.replaceChildren(...createColumn(run, step, value, projection));
    this.contrast.replaceChildren(...createContrast(run, step));
  }

  /** @param {Run} run */
  #showDescription(run) {
    this.drawn.replaceChildren(...renderTerms(describeMap(this.#grid)));
    this.missing.textContent = absentLayersText(run);
  }

  /** @param {Run} run */
  update(run) {
    const fresh = this.#run !== run;
    this.#run = run;
    if (run.steps.length !== this.#grid.shown || fresh || this.#changed) this.#showSteps(run);
    if (run.status !== "running") this.map.hurry();
  }

  /** @param {Run} run */
  #showSteps(run) {
    this.#changed = false;
    this.#grid.grow(run);
    if (!run.steps.some(isLayerStep)) return;
    this.#showDescription(run);
    this.map.schedule();
  }

  /**
   * @param {Run} run
   * @param {number} index
   */
  select(run, index) {
    if (this.#selected === index && this.#run === run && this.column.firstChild) return;
    this.#selected = index;
    // While the run is followed, the column is filled only as often as the plot is drawn.
    if (run.status === "running" && run.follow) return this.map.schedule();
    this.#fillColumn();
    if (!this.readout.textContent) this.#fillCell();
    this.map.schedule(SELECT_PAUSE_MS);
  }

  clear() {
    this.#selected = -1;
    this.#cell = null;
    this.#grid = new Grid(this.#grid.value, this.#grid.projection);
    for (const box of [this.growth, this.column, this.contrast, this.tableBody])
      box.replaceChildren();
    for (const line of [this.drawn, this.readout, this.missing]) line.textContent = "";
    this.map.clear();
  }
}

/** @type {ViewSpec} */
export const layerHeatmap = {
  title: tr("Layer map: what every layer would have said"),
  picture: true,
  recorded: true,
  heading: false,
  mount: (root, ctx) => new LayerHeatmap(root, ctx),
};
