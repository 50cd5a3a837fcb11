// Opens a tab of the page. Gradio owns the tabs, so a click on the tab's button is the only way.
import { OTHER_TAB_NAMES } from "./other_tabs.mjs";
import { waitUntilFound } from "./polling.mjs";
import { findStrategy } from "./spec.mjs";
import { getStrategyTab } from "./strategy_tabs.mjs";

/** @param {HTMLElement} tab */
const selectTab = (tab) => {
  if (tab.getAttribute("aria-selected") !== "true") tab.click();
};

/**
 * Open a tab once Gradio has drawn it; an unknown name does nothing.
 * @param {string} name of a strategy or of another tab
 */
export function openTab(name) {
  const strategy = findStrategy(name);
  if (strategy || OTHER_TAB_NAMES.includes(name))
    waitUntilFound(() => document.getElementById(`tab-${name}-button`), selectTab);
}

/**
 * Fill the tab of a form's strategy with the form, open the tab and run it.
 * @param {any} form
 */
export function runForm(form) {
  openTab(form.strategy);
  waitUntilFound(
    () => getStrategyTab(form.strategy),
    (tab) => {
      tab.show(form);
      tab.run();
    },
  );
}
