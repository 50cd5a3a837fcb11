// The one place of the page where a method's code is shown, confirmed and changed: a panel of its strategy's tab.
import { openTab } from "./open_tab.mjs";
import { declared } from "./spec.mjs";
import { tabOf } from "./tabs.mjs";
import { whenThere } from "./waiting.mjs";

const FILE_LINE = /([\w./-]+\.py), line (\d+)/;

/** @param {any} strategy */
export const isOfMethods = (strategy) => strategy.params.some(({ kind }) => kind === "method");

/**
 * Open that panel.
 * @param {{ name?: string, make?: boolean }} what a method's name, or that one is to be made
 */
export function openMethod(what) {
  const { name: tab } = declared().strategies.find(isOfMethods);
  openTab(tab);
  whenThere(
    () => tabOf(tab),
    (there) => there.methods.open(what),
  );
}

/**
 * The file and the line that a sentence names, null where it names none.
 * @param {string} sentence
 */
export function placeIn(sentence) {
  const found = FILE_LINE.exec(sentence);
  return found ? { path: found[1], line: Number(found[2]) } : null;
}
