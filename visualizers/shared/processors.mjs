// Display names of the logits processors that a record names.
import { tr } from "./tr.mjs";

// Of the processors that belong to one strategy.
/** @type {Record<string, string>} */
const STRATEGY_TITLES = {
  GreenList: tr("Green list"),
  SynthId: tr("SynthID tournament"),
  LayerContrast: tr("Layer contrast"),
};

/**
 * Name -> title of every filter, from Python.
 * @type {Record<string, string>}
 */
let filterTitles = {};

/** @param {Record<string, string>} titles */
export function setFilterTitles(titles) {
  filterTitles = titles;
}

/** @param {string} name of a processor */
export const processorTitle = (name) => filterTitles[name] ?? STRATEGY_TITLES[name] ?? name;
