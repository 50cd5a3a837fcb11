// What a layer's reading says, as a number to draw and as a number to read.
import { fixed, precise } from "../shared/text.mjs";

export const VALUES = {
  rank: "rank of the emitted token",
  divergence: "Jensen–Shannon divergence from the last layer",
  entropy: "entropy, bits",
  logprob: "log-probability of the emitted token, nats",
};
// A number with its name and unit, as a sentence has it.
export const SAID = {
  rank: (x) => `rank ${x}`,
  divergence: (x) => `divergence ${x}`,
  entropy: (x) => `entropy ${x} bits`,
  logprob: (x) => `log-probability ${x} nats`,
};
export const PROJECTIONS = {
  normed: "with the final norm applied",
  raw: "as DoLa projects it",
};
const FLOOR = -20;

export const keyOf = (name, projection) => (projection === "raw" ? name : `normed_${name}`);

/**
 * One layer's reading at a step: ranks from 0 as they are recorded, entropies in bits.
 * @param {Run} run
 * @param {Step} step
 */
export function readingOf(run, step, layer, name, projection) {
  const key = keyOf(name, projection);
  if (name === "entropy") return run.shown[step.index].layer_heatmap[key][layer];
  return step.detail.layers[layer][key];
}

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
  if (name === "rank") return (x + 1).toLocaleString("en");
  return name === "divergence" ? precise(x, 3) : fixed(x, 2);
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
