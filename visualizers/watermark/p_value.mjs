// Formats a p-value, which can be too small for a double.
import { formatFixed, formatPowerOfTen as powerOfTen } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @param {number} p */
export function formatPValue(p) {
  if (p >= 0.0001) return formatFixed(p);
  return p > 0 ? powerOfTen(p) : tr("below 10⁻³⁰⁰");
}
