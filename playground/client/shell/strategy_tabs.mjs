// Registry of the mounted strategy tabs, by strategy.
const strategyTabs = new Map();

export const getStrategyTab = (name) => strategyTabs.get(name);

export const registerStrategyTab = (name, tab) => strategyTabs.set(name, tab);
