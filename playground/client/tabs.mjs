// The tabs of strategies that are open, by name.
const tabs = new Map();

export const tabOf = (name) => tabs.get(name);

export const keepTab = (name, tab) => tabs.set(name, tab);
