// A row of the export panel.
import { el } from "../../../visualizers/shared/dom.mjs";

/**
 * @param {string} label
 * @param {...Content} nodes
 */
export const labelledRow = (label, ...nodes) =>
  el(
    "div",
    { class: "ex-row" },
    el("span", { class: "ex-label" }, label),
    el("div", { class: "dp-row" }, nodes),
  );
