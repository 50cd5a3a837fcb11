// Keys that move along a row.

/** @type {Record<string, number>} key -> how many places it moves */
export const KEY_STEPS = {
  ArrowLeft: -1,
  ArrowRight: 1,
  Home: Number.NEGATIVE_INFINITY,
  End: Infinity,
};
