// Opens a tab of the page. Gradio owns the tabs, so a click on the tab's button is the only way.
import { KNOWN } from "./other_tabs.mjs";
import { whenThere } from "./polling.mjs";
import { strategyOf } from "./spec.mjs";
import { tabOf } from "./strategy_tabs.mjs";

const press = (tab) => {
  if (tab.getAttribute("aria-selected") !== "true") tab.click();
};

/**
 * Open a tab once Gradio has drawn it; an unknown name does nothing.
 * @param {string} name of a strategy or of another tab
 */
export function openTab(name) {
  const strategy = strategyOf(name);
  if (strategy || KNOWN.includes(name))
    whenThere(() => document.getElementById(`tab-${name}-button`), press);
}

/**
 * Fill the tab of a form's strategy with the form, open the tab and run it.
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
