// Settings saved in this browser, by strategy.
import { tr } from "../../../visualizers/shared/tr.mjs";

const KEY = "dp-configs";
const MAX_SETTINGS = 12;

/** @typedef {{ name: string, text: string, params: Record<string, any> }} SavedSettings */

// The browser may block storage, and stored data may come from another program: check everything.
function readSettings() {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "{}") || {};
  } catch {
    return {};
  }
}

/** @param {any} c */
const isValidEntry = (c) =>
  c &&
  typeof c.name === "string" &&
  typeof c.text === "string" &&
  c.params &&
  typeof c.params === "object";

/**
 * Return a strategy's saved settings; invalid entries are left out.
 * @param {string} strategy
 * @returns {SavedSettings[]}
 */
export function listSettings(strategy) {
  const list = readSettings()[strategy];
  return Array.isArray(list) ? list.filter(isValidEntry) : [];
}

/**
 * @param {string} strategy
 * @param {SavedSettings[]} list
 */
function writeSettings(strategy, list) {
  try {
    localStorage.setItem(KEY, JSON.stringify({ ...readSettings(), [strategy]: list }));
    return true;
  } catch {
    return false;
  }
}

/**
 * Save settings under their name; return a sentence, and whether it is an error.
 * @param {string} strategy
 * @param {SavedSettings} settings
 */
export function saveSettings(strategy, settings) {
  const others = listSettings(strategy).filter((c) => c.name !== settings.name);
  if (others.length >= MAX_SETTINGS)
    return {
      bad: true,
      said: tr("At most {limit} settings are kept; remove one first.", { limit: MAX_SETTINGS }),
    };
  if (writeSettings(strategy, [...others, settings]))
    return { bad: false, said: tr("Kept as “{name}” in this browser.", { name: settings.name }) };
  return { bad: true, said: tr("This browser does not let the page keep anything.") };
}

/**
 * @param {string} strategy
 * @param {string} name
 */
export const deleteSettings = (strategy, name) =>
  writeSettings(
    strategy,
    listSettings(strategy).filter((c) => c.name !== name),
  );
