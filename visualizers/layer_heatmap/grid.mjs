// The data of the layer map, extended step by step: one row
// for each layer, and the outlines of the contrasted layers.
import { formatPercent, tokenLabel } from "../shared/text.mjs";
import { formatValue, isLayerStep, readValue, toColourValue, topTokens } from "./values.mjs";

/** @type {Record<string, string>} */
const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
/**
 * Plotly parses hover texts as markup, and a model can write markup.
 * @param {string} text
 */
const escapeMarkup = (text) => text.replace(/[&<>]/g, (c) => ESCAPES[c]);

/**
 * Plotly accepts absolute coordinates only in a path.
 * @param {number} x
 * @param {number} y
 */
const createFramePath = (x, y) => `M${x - 0.5},${y - 0.5}H${x + 0.5}V${y + 0.5}H${x - 0.5}Z`;

export class Grid {
  /** @type {(number | null)[][]} */
  z = [];
  /** @type {string[][]} */
  text = [];
  // One path outlines all steps, so that a long run needs no more shapes than a short one.
  outline = "";
  shown = 0;

  /**
   * @param {string} value
   * @param {string} projection
   */
  constructor(value, projection) {
    this.value = value;
    this.projection = projection;
  }

  /** @param {Run} run */
  grow(run) {
    for (; this.shown < run.steps.length; this.shown++) {
      const step = run.steps[this.shown];
      if (isLayerStep(step)) this.#addStep(run, step);
    }
  }

  /**
   * @param {Run} run
   * @param {Step} step
   */
  #addStep(run, step) {
    const { value, projection } = this;
    /** @type {LayerDetail} */
    const { layers, premature_layer: contrasted } = step.detail;
    layers.forEach((reading, i) => {
      this.z[i] ??= [];
      this.text[i] ??= [];
      const number = readValue(run, step, i, value, projection);
      const tops = topTokens(reading, projection).map(
        ([id, p]) => `${escapeMarkup(tokenLabel(run, id))} ${formatPercent(p)}`,
      );
      this.z[i].push(toColourValue(value, number));
      this.text[i].push(`${formatValue(value, number)}<br>${tops.join("<br>")}`);
    });
    this.outline += createFramePath(step.index + 1, contrasted);
  }
}
