// Tabs belong to Gradio: pressing their buttons is the one way in.
import { strategyOf } from "./spec.mjs";
import { whenThere } from "./waiting.mjs";

const press = (tab) => {
  if (tab.getAttribute("aria-selected") !== "true") tab.click();
};

/** @param {string} name of a strategy */
export function openTab(name) {
  const strategy = strategyOf(name);
  if (!strategy) return;
  whenThere(() => document.getElementById(`tab-${name}-button`), press);
}
