// Opens the panel with a method's code, which is part of the custom strategy's tab.

import { waitUntilFound } from "../shell/polling.mjs";
import { getDeclaration } from "../shell/spec.mjs";
import { getStrategyTab } from "../shell/strategy_tabs.mjs";
import { openTab } from "../shell/tab_navigation.mjs";

/** @import { Param } from "../shell/spec.mjs" */

const FILE_LINE = /([\w./-]+\.py), line (\d+)/;

/**
 * Whether a strategy runs custom methods.
 * @param {any} strategy
 */
export const hasMethodParam = (strategy) =>
  strategy.params.some((/** @type {Param} */ { kind }) => kind === "method");

/**
 * Open the method panel in its tab.
 * @param {{ name?: string, make?: boolean }} what a method's name, or make: the form for a new one
 */
export function openMethodPanel(what) {
  const tab = getDeclaration().strategies.find(hasMethodParam)?.name;
  if (!tab) return;
  openTab(tab);
  waitUntilFound(
    () => getStrategyTab(tab),
    (there) => there.methods.open(what),
  );
}

/**
 * Return the Python file and line that an error sentence names, null if it names none.
 * @param {string} sentence
 */
export function findFileLine(sentence) {
  const found = FILE_LINE.exec(sentence);
  return found ? { path: found[1], line: Number(found[2]) } : null;
}
