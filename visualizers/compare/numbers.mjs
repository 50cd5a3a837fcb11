// Numbers of a comparison in the reader's locale.
import { pageLanguage } from "../shared/tr.mjs";

/**
 * Format a number with at most two decimals, with one from 10 on, and with none from 100 on.
 * @param {number} value
 * @param {number} [decimals] at most
 */
export function formatNumber(value, decimals = 2) {
  const most = value < 10 ? 2 : value < 100 ? 1 : 0;
  const maximumFractionDigits = Math.min(decimals, most);
  return value.toLocaleString(pageLanguage(), { maximumFractionDigits });
}
