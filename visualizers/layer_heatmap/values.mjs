// The values of a layer's reading: their names, how they are drawn and how they are written.
import { formatCount, formatFixed } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @type {Record<string, string>} */
export const VALUE_NAMES = {
  rank: tr("rank of the emitted token"),
  divergence: tr("Jensen–Shannon divergence from the last layer"),
  entropy: tr("entropy, bits"),
  logprob: tr("log-probability of the emitted token, nats"),
};
/**
 * Value name -> function from a formatted number to a text with name and unit.
 * @type {Record<string, (x: string) => string>}
 */
export const VALUE_TEXT = {
  rank: (x) => tr("rank {x}", { x }),
  divergence: (x) => tr("divergence {x}", { x }),
  entropy: (x) => tr("entropy {x} bits", { x }),
  logprob: (x) => tr("log-probability {x} nats", { x }),
};
/** @type {Record<string, string>} */
export const PROJECTION_NAMES = {
  normed: tr("with the final norm applied"),
  raw: tr("as DoLa projects it"),
};
const MIN_LOGPROB = -20;

/**
 * A value of a layer at a step. Ranks count from 0; entropies are in bits, from the summary.
 * @param {Run} run
 * @param {Step} step
 * @param {number} layer
 * @param {string} name
 * @param {string} projection
 * @returns {number | null}
 */
export function readValue(run, step, layer, name, projection) {
  if (name === "entropy") {
    const { entropy, normed_entropy: normed } = run.shown[step.index].layer_heatmap;
    return (projection === "raw" ? entropy : normed)[layer];
  }
  return step.detail.layers[layer][projection === "raw" ? name : `normed_${name}`];
}

/**
 * The number that sets a cell's colour: log10 of a rank, and log-probabilities of at least -20.
 * @drawing
 * @param {string} name
 * @param {number | null} x
 */
export function toColourValue(name, x) {
  if (x === null) return null;
  if (name === "rank") return Math.log10(x + 1);
  return name === "logprob" ? Math.max(MIN_LOGPROB, x) : x;
}

/**
 * @param {string} name
 * @param {number | null} x
 */
export function formatValue(name, x) {
  if (x === null) return "–";
  if (name === "rank") return formatCount(x + 1);
  return formatFixed(x);
}

/**
 * @param {number} layer
 * @param {number} count
 */
export function layerName(layer, count) {
  if (layer === 0) return tr("0 input");
  return layer === count - 1 ? tr("{layer} output", { layer }) : String(layer);
}

/**
 * @param {LayerDetail} detail
 * @param {number} layer
 */
export function layerRole(detail, layer) {
  if (layer === detail.premature_layer) return tr("■ contrasted");
  if (layer === detail.layers.length - 1) return tr("● output");
  return detail.candidate_layers.includes(layer) ? tr("○ candidate") : "";
}

/** @param {Step} step */
export const isLayerStep = (step) => step.detail?.kind === "layer";

/**
 * The most probable tokens of a layer, with their probabilities.
 * @param {LayerReading} reading
 * @param {string} projection
 */
export const topTokens = (reading, projection) =>
  projection === "raw" ? reading.top : reading.normed_top;
