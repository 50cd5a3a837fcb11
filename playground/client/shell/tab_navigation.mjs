// Opens a tab of the page. Gradio owns the tabs, so a click on the tab's button is the only way.
import { OTHER_TAB_NAMES } from "./other_tabs.mjs";
import { waitUntilFound } from "./polling.mjs";
import { findStrategy } from "./spec.mjs";
import { getStrategyTab } from "./strategy_tabs.mjs";

const USER_ACTS = ["pointerdown", "keydown"];

// The tab that is opened once Gradio has drawn it, which a click or a key cancels.
let opening = "";
for (const kind of USER_ACTS)
  addEventListener(
    kind,
    () => {
      opening = "";
    },
    true,
  );

/** @param {HTMLElement} tab */
function selectTab(tab) {
  if (tab.getAttribute("aria-selected") !== "true") tab.click();
  // Gradio draws the selected tab before the next frame.
  requestAnimationFrame(() => {
    opening = "";
  });
}

/**
 * Return a promise that resolves once a tab is selected, and not only until another one is opened.
 * @param {string} name of a strategy
 * @returns {Promise<void>}
 */
export function whenSelected(name) {
  return new Promise((resolve) => {
    const ended = new AbortController();
    const look = () => {
      const tab = document.getElementById(`tab-${name}-button`);
      const other = opening && opening !== name;
      if (other || tab?.getAttribute("aria-selected") !== "true") return;
      ended.abort();
      changes.disconnect();
      resolve();
    };
    const changes = new MutationObserver(look);
    const row = document.getElementById("strategies") ?? document.body;
    changes.observe(row, { subtree: true, childList: true, attributeFilter: ["aria-selected"] });
    for (const kind of USER_ACTS) addEventListener(kind, look, { signal: ended.signal });
    look();
  });
}

/**
 * Open a tab once Gradio has drawn it; an unknown name does nothing.
 * @param {string} name of a strategy or of another tab
 */
export function openTab(name) {
  if (!findStrategy(name) && !OTHER_TAB_NAMES.includes(name)) return;
  opening = name;
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
