// The four places of the page. Each shows some of Gradio's tabs in the row below the header.
import { waitUntilFound } from "./polling.mjs";
import { getDeclaration } from "./spec.mjs";
import { openTab } from "./tab_navigation.mjs";

/** @type {Record<string, string[]>} place -> its tabs; explore has all strategies */
const TABS = {
  learn: ["lessons"],
  explore: [],
  compare: ["compare", "draws", "taste"],
  library: ["replay", "watermark_bench"],
};
const FIRST_PLACE = "explore";

/** @type {Record<string, string>} place -> the tab that was open there last */
const lastTabs = {};

/** @param {string} tab */
const findPlace = (tab) =>
  Object.keys(TABS).find((place) => TABS[place].includes(tab)) ?? FIRST_PLACE;

/** @param {string} tab */
function showPlace(tab) {
  const place = findPlace(tab);
  if (tab) lastTabs[place] = tab;
  // The style sheet hides the tabs of other places.
  document.documentElement.dataset.place = place;
  for (const link of document.querySelectorAll(".dp-places a"))
    if (link instanceof HTMLElement)
      if (link.dataset.place === place) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
}

// Gradio changes the selected tab itself, so its row is watched.
function showSelected() {
  const chosen = document.querySelector("#strategies [role=tab][aria-selected=true]");
  const [, tab] = chosen?.id.match(/^tab-(.*)-button$/) ?? [];
  if (tab) showPlace(tab);
}

/**
 * Show the place of the tab in an address, and follow the selected tab from then on.
 * @param {string} search query part of the address
 */
export function mountPlaces(search) {
  showPlace(new URLSearchParams(search).get("tab") ?? "");
  waitUntilFound(
    // The last of the header and the row that Gradio draws.
    () => document.querySelector(".gradio-container:has(.dp-places) #strategies > .tab-wrapper"),
    (row) => {
      showSelected();
      const changes = { subtree: true, childList: true, attributeFilter: ["aria-selected"] };
      new MutationObserver(showSelected).observe(row, changes);
    },
  );
  addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest(".dp-places a");
    if (!(link instanceof HTMLElement) || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const place = link.dataset.place ?? FIRST_PLACE;
    openTab(lastTabs[place] ?? TABS[place][0] ?? getDeclaration().strategies[0].name);
  });
}
