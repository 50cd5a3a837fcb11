// The row of Gradio's tabs: strategies in groups, with a second row for the selected group, and arrow
// keys between the tabs.
import { KEY_STEPS } from "../../../visualizers/shared/keys.mjs";
import { showSelectedPlace } from "./places.mjs";
import { onceFound, waitUntilFound } from "./polling.mjs";
import { findStrategy, getDeclaration } from "./spec.mjs";
import { getStrategyTab } from "./strategy_tabs.mjs";

// The last of the header and the row that Gradio draws.
const ROW = ".gradio-container:has(.dp-places) #strategies > .tab-wrapper > [role=tablist]";

/** @type {Record<string, string>} group -> the strategy of it that was open last */
const lastInGroup = {};

/** @param {HTMLElement} row */
const tabsOf = (row) => /** @type {HTMLElement[]} */ ([...row.querySelectorAll("[role=tab]")]);

/** @param {HTMLElement} tab */
const strategyOf = (tab) => findStrategy(tab.dataset.tabId ?? "");

/**
 * Scroll the row, which may be wider than the window, to its selected tab.
 * @param {HTMLElement} row
 * @param {HTMLElement} tab
 */
function scrollTo(row, tab) {
  const box = row.parentElement;
  if (box) box.scrollLeft = tab.offsetLeft - (box.clientWidth - tab.offsetWidth) / 2;
}

/** @param {HTMLElement} row */
function drawGroups(row) {
  const tabs = tabsOf(row);
  const groups = getDeclaration().strategy_groups;
  const selected = tabs.find((tab) => tab.getAttribute("aria-selected") === "true");
  const open = selected && strategyOf(selected);
  if (open) lastInGroup[open.group] = open.name;
  const members = (/** @type {string} */ group) =>
    tabs.filter((tab) => strategyOf(tab)?.group === group);
  for (const [place, [group, title]] of Object.entries(groups).entries()) {
    const own = members(group);
    const last = own.find((tab) => tab.dataset.tabId === lastInGroup[group]) ?? own[0];
    const split = own.length > 1 && group === open?.group;
    for (const tab of own) {
      const name = strategyOf(tab)?.plain_name ?? "";
      tab.dataset.plain = own.length > 1 && !split ? title : name;
      tab.toggleAttribute("data-same", tab.dataset.plain === tab.textContent);
      tab.toggleAttribute("data-second", split);
      tab.toggleAttribute("data-folded", !split && tab !== last);
      tab.style.order = String(place + 1);
    }
    if (split) row.style.setProperty("--place", String(place + 1));
  }
  const several = open && members(open.group).length > 1;
  if (several) row.dataset.group = groups[open.group];
  else delete row.dataset.group;
  for (const tab of tabs) tab.tabIndex = tab === selected ? 0 : -1;
  if (selected) scrollTo(row, selected);
}

/**
 * Let a strategy's tab take over what the visitor asked in another one.
 * @param {HTMLElement} tab
 */
function takeOver(tab) {
  const name = strategyOf(tab)?.name;
  if (name)
    waitUntilFound(
      () => getStrategyTab(name),
      (opened) => opened.takeOver(),
    );
}

/**
 * @param {HTMLElement} row
 * @param {KeyboardEvent} event
 */
function handleKey(row, event) {
  const step = KEY_STEPS[event.key];
  const shown = tabsOf(row)
    .filter((tab) => tab.getClientRects().length > 0)
    .sort((one, other) => one.offsetTop - other.offsetTop || one.offsetLeft - other.offsetLeft);
  const at = shown.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  if (step === undefined || at < 0) return;
  event.preventDefault();
  const next = shown[Math.max(0, Math.min(shown.length - 1, at + step))];
  next.click();
  next.focus();
  takeOver(next);
}

/** Draw the groups and the place once Gradio has drawn its tabs, and whenever another tab is selected. */
export function mountStrategyStrip() {
  onceFound(
    () => /** @type {HTMLElement | null} */ (document.querySelector(ROW)),
    (row) => {
      const showSelected = () => {
        drawGroups(row);
        showSelectedPlace();
      };
      showSelected();
      // Gradio changes the selected tab itself.
      const changes = { subtree: true, childList: true, attributeFilter: ["aria-selected"] };
      new MutationObserver(showSelected).observe(row, changes);
      row.addEventListener("keydown", (event) => handleKey(row, event));
      row.addEventListener("click", ({ target, isTrusted }) => {
        const tab = target instanceof Element && target.closest("[role=tab]");
        // Scripts open a tab to fill it with a form of their own.
        if (isTrusted && tab instanceof HTMLElement) takeOver(tab);
      });
    },
  );
}
