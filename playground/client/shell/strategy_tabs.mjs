// Registry of the mounted strategy tabs, by strategy.
const tabs = new Map();

export const tabOf = (name) => tabs.get(name);

export const keepTab = (name, tab) => tabs.set(name, tab);
