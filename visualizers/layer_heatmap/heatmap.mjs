// The plot of the layer map. It redraws at most four times
// a second while steps arrive, and less often if drawing is slow.
import { readColours } from "../shared/colours.mjs";
import { el } from "../shared/dom.mjs";
import { loadPlotly, onClick, purgePlot } from "../shared/plotly.mjs";
import { tr } from "../shared/tr.mjs";
import { createHeatTrace, createLayout, PLOT_CONFIG, plotHeight } from "./figure.mjs";

/** @import { Grid } from "./grid.mjs" */

const MIN_PAUSE_MS = 250;
// Largest share of the time that drawing may take while steps arrive.
const MAX_DRAW_SHARE = 0.08;

export class Heatmap {
  #busy = false;
  // The shortest pause that was asked for since the last drawing began; infinite if none was.
  #pause = Infinity;
  #timer = 0;
  #drawnAt = 0;
  #drawMs = 0;
  #ready = false;

  /**
   * `wanted` returns what to draw, or null; `clicked` is called with a step and a layer.
   * @param {() => { grid: Grid, selected: number | null, id: string } | null} wanted
   * @param {(step: number, layer: number) => void} clicked
   */
  constructor(wanted, clicked) {
    this.wanted = wanted;
    this.clicked = clicked;
    this.node = el("div", {
      class: "lh-plot",
      role: "img",
      "aria-label": tr(
        "Heatmap of layers over steps; the column table below carries the numbers of the selected step",
      ),
    });
  }

  // Draw when `pause` milliseconds have passed since the last drawing, unless that is due earlier.
  schedule(pause = Math.max(MIN_PAUSE_MS, this.#drawMs / MAX_DRAW_SHARE)) {
    this.#pause = Math.min(this.#pause, pause);
    if (this.#busy) return;
    clearTimeout(this.#timer);
    const rest = this.#pause - (performance.now() - this.#drawnAt);
    this.#timer = setTimeout(() => this.#draw(), Math.max(0, rest));
  }

  // Draw soon what is due later, as no more steps arrive.
  hurry() {
    if (this.#pause !== Infinity) this.schedule(MIN_PAUSE_MS);
  }

  async #draw() {
    this.#pause = Infinity;
    this.#busy = true;
    try {
      // Loading is slow once, and says nothing about how long a drawing takes.
      const Plotly = await loadPlotly();
      const began = performance.now();
      await this.#paint(Plotly);
      this.#drawMs = performance.now() - began;
    } finally {
      this.#busy = false;
      this.#drawnAt = performance.now();
      if (this.#pause !== Infinity) this.schedule(this.#pause);
    }
  }

  /** @param {any} Plotly */
  async #paint(Plotly) {
    const { node } = this;
    const what = node.isConnected ? this.wanted() : null;
    if (!what) return;
    const { grid, selected, id } = what;
    const shades = readColours();
    node.style.height = `${plotHeight(grid.z.length)}px`;
    const heat = createHeatTrace(grid, node.clientWidth);
    await Plotly.react(node, [heat], createLayout(grid, selected, shades, id), PLOT_CONFIG);
    node.dataset.steps = String(grid.z[0].length);
    node.dataset.view = `${grid.value} ${grid.projection}`;
    if (this.#ready) return;
    this.#ready = true;
    onClick(node, (event) => {
      const point = event.points.find((/** @type {any} */ p) => p.data.type === "heatmap");
      if (point) this.clicked(point.x - 1, point.y);
    });
  }

  clear() {
    delete this.node.dataset.steps;
    if (!this.#ready) return;
    this.#ready = false;
    purgePlot(this.node);
  }
}
