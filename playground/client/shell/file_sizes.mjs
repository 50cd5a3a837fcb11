// Formats file sizes and durations.
import { tr } from "../../../visualizers/shared/tr.mjs";

const KB = 1000;
const MB = 1_000_000;

/**
 * @drawing Formats a file size in kB or MB.
 * @param {number} bytes
 */
export const formatSize = (bytes) =>
  bytes < MB ? `${Math.ceil(bytes / KB)} kB` : `${(bytes / MB).toFixed(1)} MB`;

/**
 * Format a duration in seconds.
 * @param {number} seconds
 */
export const formatSeconds = (seconds) => tr("{n} s", { n: seconds.toFixed(1) });
