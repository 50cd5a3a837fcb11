// How surprised and how uncertain the model was at each step.
import { colours } from "../shared/colours.mjs";
import { el } from "../shared/dom.mjs";
import { onClick, plotly } from "../shared/plotly.mjs";
import { sequenceOf, severalOf } from "../shared/record.mjs";
import { piece } from "../shared/text.mjs";

const dots = (name, x, y, color, dash) => ({
  x,
  y,
  name,
  mode: "lines",
  line: { color, dash, width: 2 },
  hovertemplate: "%{y:.2f} bits",
});

/**
 * The curves of the text that is looked at; steps count from 1.
 * @param {Run} run
 */
function dataOf(run, sequence, shades) {
  const steps = run.steps.filter((s) => s.sequence === sequence);
  const x = steps.map((s) => s.index + 1);
  const shown = steps.map((s) => run.shown[s.index].chart);
  const own = shown.map((values) => values.entropy);
  const used = shown.map((values) => values.entropy_used);
  const changed = steps.some((s) => s.stages.length);
  return [
    dots(changed ? "entropy (model)" : "entropy", x, own, shades.violet, "dot"),
    ...(changed ? [dots("entropy (as used)", x, used, shades.good, "dash")] : []),
    {
      x,
      y: shown.map((values) => values.surprise),
      text: steps.map((s) => s.emit.map((id) => piece(run, id)).join("")),
      name: "surprise (model)",
      mode: "lines+markers",
      marker: { size: 5 },
      line: { color: shades.accent, width: 2 },
      hovertemplate: "%{text}<br>%{y:.2f} bits",
    },
  ];
}

// A line across the curves where the selected step stands.
const markOf = (run, shades) =>
  run.selected === null
    ? []
    : [
        {
          type: "line",
          name: "selected step",
          xref: "x",
          yref: "paper",
          x0: run.selected + 1,
          x1: run.selected + 1,
          y0: 0,
          y1: 1,
          line: { color: shades.text, width: 1.5, dash: "dot" },
        },
      ];

function layoutOf(run, sequence, shades) {
  const own = run.steps.filter((s) => s.sequence === sequence);
  const axis = { gridcolor: shades.line, zeroline: false };
  return {
    margin: { l: 44, r: 8, t: 8, b: 36 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: shades.text, size: 12 },
    showlegend: true,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    shapes: markOf(run, shades),
    xaxis: {
      range: [own[0].index + 0.5, own.at(-1).index + 1.5],
      title: { text: severalOf(run) ? `step (output ${sequence + 1})` : "step" },
      ...axis,
    },
    yaxis: { title: { text: "bits" }, rangemode: "tozero", ...axis },
    hovermode: "x unified",
    hoverlabel: { bgcolor: shades.bg, font: { color: shades.text } },
  };
}

class Chart {
  #shown = "";
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
        "Surprise of the emitted token for the model, and entropy of the model's distribution and of the one that was used, in bits, over the steps of the text",
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
    const sequence = sequenceOf(run);
    const data = dataOf(run, sequence, shades);
    await Plotly.react(this.plot, data, layoutOf(run, sequence, shades), config);
    Object.assign(this.plot.dataset, { sequence, mark: (run.selected ?? -1) + 1 });
    if (!this.#ready) {
      this.#ready = true;
      onClick(this.plot, (event) => this.ctx.select(event.points[0].x - 1));
    }
    this.#busy = false;
    if (!this.#wanted) return;
    const next = this.#wanted;
    this.#wanted = null;
    this.#paint(next);
  }

  /** @param {Run} run */
  update(run) {
    const wanted = `${run.id} ${run.steps.length} ${run.selected}`;
    if (!run.steps.length || wanted === this.#shown) return;
    this.#shown = wanted;
    this.#paint(run);
  }

  select() {}

  clear() {
    this.#shown = "";
  }
}

/** @type {ViewSpec} */
export const chart = {
  title: "Surprise and entropy over the text",
  place: "drawer",
  tab: "Curve",
  curve: true,
  empty:
    "A curve of how surprised and how uncertain the model was at each step, and of what the processors made of it.",
  mount: (root, ctx) => new Chart(root, ctx),
};
