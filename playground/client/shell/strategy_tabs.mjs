// Registry of the mounted strategy tabs, by strategy.
/** @type {Map<string, any>} */
const strategyTabs = new Map();

/** @param {string} name */
export const getStrategyTab = (name) => strategyTabs.get(name);

/**
 * @param {string} name
 * @param {any} tab
 */
export const registerStrategyTab = (name, tab) => strategyTabs.set(name, tab);
