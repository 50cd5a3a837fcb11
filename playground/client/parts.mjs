// The tabs that are no strategy's, once they are there: each can restore what a link says, or refuse it.
export const KNOWN = ["compare", "draws", "watermark_bench", "taste", "replay", "lessons"];
const parts = new Map();

/**
 * @param {string} name
 * @param {{ restore: (found: any, itself?: boolean) => void, refuse: (error: string) => void }} part
 */
export const keepPart = (name, part) => parts.set(name, part);

export const partOf = (name) => parts.get(name);
