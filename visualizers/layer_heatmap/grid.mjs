// The data of the layer map, extended step by step: one row
// for each layer, and the outlines of the contrasted layers.
import { percent, piece } from "../shared/text.mjs";
import { drawn, isLayered, keyOf, readingOf, written } from "./values.mjs";

const ESCAPED = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
// Plotly parses hover texts as markup, and a model can write markup.
const escaped = (text) => text.replace(/[&<>]/g, (c) => ESCAPED[c]);

// Plotly accepts absolute coordinates only in a path.
const frameOf = (x, y) => `M${x - 0.5},${y - 0.5}H${x + 0.5}V${y + 0.5}H${x - 0.5}Z`;

export class Grid {
  z = [];
  text = [];
  // One path outlines all steps, so that a long run needs no more shapes than a short one.
  outline = "";
  shown = 0;

  constructor(value, projection) {
    this.value = value;
    this.projection = projection;
  }

  /** @param {Run} run */
  grow(run) {
    for (; this.shown < run.steps.length; this.shown++) {
      const step = run.steps[this.shown];
      if (isLayered(step)) this.#push(run, step);
    }
  }

  /**
   * @param {Run} run
   * @param {Step} step
   */
  #push(run, step) {
    const { value, projection } = this;
    step.detail.layers.forEach((reading, i) => {
      this.z[i] ??= [];
      this.text[i] ??= [];
      const number = readingOf(run, step, i, value, projection);
      const tops = reading[keyOf("top", projection)].map(
        ([id, p]) => `${escaped(piece(run, id))} ${percent(p)}`,
      );
      this.z[i].push(drawn(value, number));
      this.text[i].push(`${written(value, number)}<br>${tops.join("<br>")}`);
    });
    this.outline += frameOf(step.index + 1, step.detail.premature_layer);
  }
}
