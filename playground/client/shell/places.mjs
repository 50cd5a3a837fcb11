// The four places of the page. Each shows some of Gradio's tabs in the row below the header.
import { getDeclaration } from "./spec.mjs";
import { openTab } from "./tab_navigation.mjs";

/** @type {Record<string, string[]>} place -> its tabs; explore has all strategies */
const TABS = {
  learn: ["lessons"],
  explore: [],
  compare: ["compare", "tune", "draws", "taste"],
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

/** Show the place of the selected tab. */
export function showSelectedPlace() {
  const chosen = document.querySelector("#strategies [role=tab][aria-selected=true]");
  const [, tab] = chosen?.id.match(/^tab-(.*)-button$/) ?? [];
  if (tab) showPlace(tab);
}

/**
 * Show the place of the tab in an address, and let the header's links open a place.
 * @param {string} search query part of the address
 */
export function mountPlaces(search) {
  showPlace(new URLSearchParams(search).get("tab") ?? "");
  addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest(".dp-places a");
    if (!(link instanceof HTMLElement) || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const place = link.dataset.place ?? FIRST_PLACE;
    openTab(lastTabs[place] ?? TABS[place][0] ?? getDeclaration().strategies[0].name);
  });
}
