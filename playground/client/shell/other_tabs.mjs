// Registry of the tabs that belong to no strategy. Each restores a link's state, or shows why not.
export const KNOWN = ["compare", "draws", "watermark_bench", "taste", "replay", "lessons"];
const parts = new Map();

/**
 * Register a mounted tab.
 * @param {string} name
 * @param {{ restore: (found: any, itself?: boolean) => void, refuse: (error: string) => void }} part
 */
export const keepPart = (name, part) => parts.set(name, part);

export const partOf = (name) => parts.get(name);
