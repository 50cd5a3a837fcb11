// The column of a step: how likely each layer found the chosen word, the output on top.
import { el } from "../shared/dom.mjs";
import { formatWholePercent, toCssLength, wordLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { formatValue, readValue, topTokens } from "./values.mjs";

// DoLa decides on the bare hidden states, but only with the final norm do early layers say words.
const PROJECTION = "normed";

/**
 * A layer's favourite word, where the layer before it had another one.
 * @param {LayerReading[]} layers
 * @param {number} layer
 */
function newFavourite(layers, layer) {
  const [id, before] = [layer, layer - 1].map(
    (i) => layers[i] && topTokens(layers[i], PROJECTION)[0][0],
  );
  return id === before ? null : id;
}

/**
 * The part of a bar that a layer's chance fills; the surest layer fills it.
 * @drawing
 * @param {number} chance
 * @param {number[]} chances of all layers
 */
const barPart = (chance, chances) => chance / (Math.max(...chances) || 1);

/**
 * @param {Run} run
 * @param {Step} step
 * @param {number} layer
 */
function createLayer(run, step, layer) {
  /** @type {LayerDetail} */
  const { layers, premature_layer: contrasted } = step.detail;
  const { chance } = run.shown[step.index].layer_heatmap;
  const favourite = newFavourite(layers, layer);
  const values = {
    layer,
    share: formatWholePercent(chance[layer]),
    rank: formatValue("rank", readValue(run, step, layer, "rank", PROJECTION)),
    word: wordLabel(run, topTokens(layers[layer], PROJECTION)[0][0]),
  };
  const said = tr("Layer {layer}: {share}, rank {rank}; its favourite is “{word}”.", values);
  const on = layer === layers.length - 1;
  return el(
    "div",
    {
      class: `lg-row${on ? " on" : ""}${layer === contrasted ? " base" : ""}`,
      role: "listitem",
      title: said,
      "aria-label": said,
    },
    el("span", { class: "lg-layer" }, String(layer)),
    el(
      "span",
      { class: "lg-bar" },
      el("i", { style: { width: toCssLength(barPart(chance[layer], chance)) } }),
    ),
    el("span", { class: "lg-share" }, values.share),
    el(
      "span",
      { class: `lg-word${favourite === step.emit[0] ? " hit" : ""}` },
      favourite === null ? "" : values.word,
    ),
  );
}

/**
 * @param {Run} run
 * @param {Step} step
 */
export function createGrowth(run, step) {
  /** @type {LayerDetail} */
  const { layers, premature_layer: contrasted } = step.detail;
  const word = wordLabel(run, step.emit[0]);
  const rows = layers.map((_, layer) => createLayer(run, step, layer)).reverse();
  return [
    el(
      "div",
      { class: "lg-head", "aria-hidden": "true" },
      el("span", {}, tr("layer")),
      el("span", {}, tr("how likely “{word}” was", { word })),
      el("span", {}, tr("favourite")),
    ),
    el(
      "div",
      { class: "lg-rows", role: "list", "aria-label": tr("Layers, the last one first") },
      rows,
    ),
    el(
      "p",
      { class: "lg-key" },
      el("i", {}),
      tr("compared with layer {layer}", { layer: contrasted }),
    ),
  ];
}
