// Formats file sizes.
import { formatFixed } from "../../../visualizers/shared/text.mjs";

const KB = 1000;
const MB = 1_000_000;

/**
 * @drawing Formats a file size in kB or MB.
 * @param {number} bytes
 */
export const formatSize = (bytes) =>
  bytes < MB ? `${Math.ceil(bytes / KB)} kB` : `${formatFixed(bytes / MB, 1)} MB`;
