// How surprised and how uncertain the model was at each step.
import { colours } from "../shared/colours.mjs";
import { el } from "../shared/dom.mjs";
import { onClick, plotly } from "../shared/plotly.mjs";
import { piece } from "../shared/text.mjs";

/** @param {Run} run */
function dataOf(run, shades) {
  const steps = run.steps.filter((s) => s.sequence === 0);
  const x = steps.map((s) => s.index);
  const shown = steps.map((s) => run.shown[s.index].chart);
  return [
    {
      x,
      y: shown.map((values) => values.entropy),
      name: "entropy",
      mode: "lines",
      line: { color: shades.violet, dash: "dot", width: 2 },
      hovertemplate: "%{y:.2f} bits",
    },
    {
      x,
      y: shown.map((values) => values.surprise),
      text: steps.map((s) => s.emit.map((id) => piece(run, id)).join("")),
      name: "surprise",
      mode: "lines+markers",
      marker: { size: 5 },
      line: { color: shades.accent, width: 2 },
      hovertemplate: "%{text}<br>%{y:.2f} bits",
    },
  ];
}

function layoutOf(shades) {
  const axis = { gridcolor: shades.line, zeroline: false };
  return {
    margin: { l: 44, r: 8, t: 8, b: 36 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: shades.text, size: 12 },
    showlegend: true,
    legend: { orientation: "h", y: 1.12, x: 0 },
    xaxis: { title: { text: "step" }, ...axis },
    yaxis: { title: { text: "bits" }, rangemode: "tozero", ...axis },
    hovermode: "x unified",
    hoverlabel: { bgcolor: shades.bg, font: { color: shades.text } },
  };
}

class Chart {
  #shown = 0;
  #ready = false;
  #busy = false;
  #wanted = null;

  /** @param {Context} ctx */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.plot = el("div", {
      class: "dp-plot",
      role: "img",
      "aria-label":
        "Surprise of the emitted token and entropy of the distribution, in bits, over steps",
    });
    root.append(this.plot);
  }

  /**
   * What comes while a picture is being drawn is drawn after it, and only the last of it.
   * @param {Run} run
   */
  async #paint(run) {
    if (this.#busy) {
      this.#wanted = run;
      return;
    }
    this.#busy = true;
    const Plotly = await plotly();
    const shades = colours();
    const config = { displayModeBar: false, responsive: true };
    await Plotly.react(this.plot, dataOf(run, shades), layoutOf(shades), config);
    if (!this.#ready) {
      this.#ready = true;
      onClick(this.plot, (event) => this.ctx.select(event.points[0].x));
    }
    this.#busy = false;
    if (!this.#wanted) return;
    const next = this.#wanted;
    this.#wanted = null;
    this.#paint(next);
  }

  /** @param {Run} run */
  update(run, from) {
    const { length } = run.steps;
    if (!length || (length === this.#shown && from !== 0)) return;
    this.#shown = length;
    this.#paint(run);
  }

  select() {}

  clear() {
    this.#shown = 0;
  }
}

/** @type {ViewSpec} */
export const chart = {
  title: "Surprise and entropy over the text",
  place: "drawer",
  tab: "Curve",
  curve: true,
  empty: "A curve of how surprised and how uncertain the model was at each step.",
  mount: (root, ctx) => new Chart(root, ctx),
};
