// How large a file is and how long a sound, in words.
import { tr } from "../../visualizers/shared/tr.mjs";

const KB = 1000;
const MB = 1_000_000;

/** @param {number} bytes */
export function sizeOf(bytes) {
  if (bytes < KB) return tr("{n} bytes", { n: bytes });
  if (bytes < MB) return tr("{n} kB", { n: Math.round(bytes / KB) });
  return tr("{n} MB", { n: (bytes / MB).toFixed(1) });
}

/** @param {number} seconds */
export const secondsOf = (seconds) => tr("{n} s", { n: seconds.toFixed(1) });
