// Opens the panel with a method's code, which is part of the custom strategy's tab.

import { whenThere } from "../shell/polling.mjs";
import { declared } from "../shell/spec.mjs";
import { tabOf } from "../shell/strategy_tabs.mjs";
import { openTab } from "../shell/tab_navigation.mjs";

const FILE_LINE = /([\w./-]+\.py), line (\d+)/;

/**
 * Whether a strategy runs custom methods.
 * @param {any} strategy
 */
export const isOfMethods = (strategy) => strategy.params.some(({ kind }) => kind === "method");

/**
 * Open the method panel in its tab.
 * @param {{ name?: string, make?: boolean }} what a method's name, or make: the form for a new one
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
 * Return the Python file and line that an error sentence names, null if it names none.
 * @param {string} sentence
 */
export function placeIn(sentence) {
  const found = FILE_LINE.exec(sentence);
  return found ? { path: found[1], line: Number(found[2]) } : null;
}
