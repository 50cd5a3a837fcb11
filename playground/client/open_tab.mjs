// Tabs belong to Gradio: pressing their buttons is the one way in.
import { KNOWN } from "./parts.mjs";
import { strategyOf } from "./spec.mjs";
import { tabOf } from "./tabs.mjs";
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

/**
 * Put a form into the tab of its strategy, and run it.
 * @param {any} form
 */
export function runForm(form) {
  openTab(form.strategy);
  whenThere(
    () => tabOf(form.strategy),
    (tab) => {
      tab.show(form);
      tab.run();
    },
  );
}
