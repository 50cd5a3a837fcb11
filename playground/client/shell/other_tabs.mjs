// Registry of the tabs that belong to no strategy. Each restores a link's state, or shows why not.
export const OTHER_TAB_NAMES = [
  "compare",
  "tune",
  "draws",
  "watermark_bench",
  "taste",
  "replay",
  "lessons",
];
const otherTabs = new Map();

/**
 * Register a mounted tab.
 * @param {string} name
 * @param {{ restore: (found: any, itself?: boolean) => void, refuse: (error: string) => void }} part
 */
export const registerOtherTab = (name, part) => otherTabs.set(name, part);

/** @param {string} name */
export const getOtherTab = (name) => otherTabs.get(name);
