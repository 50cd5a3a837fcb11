// Tabs belong to Gradio: pressing their buttons is the one way in.
import { KNOWN } from "./parts.mjs";
import { strategyOf } from "./spec.mjs";
import { whenThere } from "./waiting.mjs";

const press = (tab) => {
  if (tab.getAttribute("aria-selected") !== "true") tab.click();
};

/** @param {string} name of a strategy, or of another tab */
export function openTab(name) {
  const strategy = strategyOf(name);
  if (strategy || KNOWN.includes(name))
    whenThere(() => document.getElementById(`tab-${name}-button`), press);
}
