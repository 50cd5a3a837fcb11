// How large a file is and how long a sound, in words.
import { tr } from "../../visualizers/shared/tr.mjs";

const KB = 1000;
const MB = 1_000_000;

/**
 * @drawing How large a file is, in words.
 * @param {number} bytes
 */
export const sizeOf = (bytes) =>
  bytes < MB ? `${Math.ceil(bytes / KB)} kB` : `${(bytes / MB).toFixed(1)} MB`;

/** @param {number} seconds */
export const secondsOf = (seconds) => tr("{n} s", { n: seconds.toFixed(1) });
