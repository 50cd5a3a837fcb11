// What a layer's reading says, as a number to draw and as a number to read.
import { fixed } from "../shared/text.mjs";

export const VALUES = {
  divergence: "divergence from the last layer",
  entropy: "entropy, nats",
  rank: "rank of the emitted token",
  logprob: "log-probability of the emitted token",
};
export const PROJECTIONS = {
  raw: "as DoLa projects it",
  normed: "with the final norm applied",
};
const FLOOR = -20;

export const keyOf = (name, projection) => (projection === "raw" ? name : `normed_${name}`);

/**
 * The number that a colour stands for: ranks by their logarithm, very small probabilities all alike.
 * @drawing
 */
export function drawn(name, x) {
  if (x === null) return null;
  if (name === "rank") return Math.log10(x + 1);
  return name === "logprob" ? Math.max(FLOOR, x) : x;
}

export function written(name, x) {
  if (x === null) return "–";
  if (name === "rank") return String(x);
  return name === "divergence" ? x.toExponential(2) : fixed(x, 2);
}

export const layerName = (layer, count) =>
  layer === 0 ? "0 input" : layer === count - 1 ? `${layer} output` : String(layer);

export function roleOf(detail, layer) {
  if (layer === detail.premature_layer) return "■ contrasted";
  if (layer === detail.layers.length - 1) return "● output";
  return detail.candidate_layers.includes(layer) ? "○ candidate" : "";
}

/** @param {Step} step */
export const isLayered = (step) => step.detail?.kind === "layer";
