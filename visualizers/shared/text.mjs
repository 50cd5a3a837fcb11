// Formats tokens, probabilities and numbers as readable text.
import { pageLanguage, tr } from "./tr.mjs";

/** @type {Record<string, string>} */
const INVISIBLE_MARKS = { "\n": "⏎", "\t": "⇥", "\r": "␍", "\u0000": "␀", "\u00a0": "⍽" };
// Control characters, zero-width and no-break spaces, and marks of writing direction, which would
// turn around the words of the page.
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern looks for control characters
const INVISIBLE = /[\u0000-\u001f\u00a0\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

/**
 * Replace invisible characters by visible marks; an ordinary space stays.
 * @param {string} text
 */
export const makeVisible = (text) =>
  text.replace(
    INVISIBLE,
    (c) =>
      INVISIBLE_MARKS[c] || `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
  );

/**
 * The text of a token, or "#id" if it is unknown.
 * @param {Run} run
 * @param {number} id
 */
export const tokenText = (run, id) => run.pieces[id] ?? run.more_pieces?.[id] ?? `#${id}`;

/**
 * @param {Run} run
 * @param {number[]} ids
 */
export const tokensText = (run, ids) => makeVisible(ids.map((id) => tokenText(run, id)).join(""));

/**
 * @param {Run} run
 * @param {number} id
 */
export const tokenLabel = (run, id) =>
  makeVisible(tokenText(run, id)).replace(/^ +| +$/g, (s) => "·".repeat(s.length));

/**
 * A token as a word of a sentence: without the space before it, and a name for the end of the text.
 * @param {Run} run
 * @param {number} id
 */
export const wordLabel = (run, id) =>
  run.eos_token_ids.includes(id)
    ? tr("(end)")
    : makeVisible(tokenText(run, id)).trim() || tokenLabel(run, id);

const SUPERSCRIPT_DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
/** @param {string} digits */
const toSuperscript = (digits) =>
  [...digits].map((c) => SUPERSCRIPT_DIGITS[Number(c)] ?? "⁻").join("");

/**
 * Turn JavaScript's notation into a minus sign and superscript powers of ten.
 * @param {string} text
 */
const formatNotation = (text) => {
  const [number, exponent] = text.replace("-", "−").replace("e+", "e").split("e");
  return exponent ? `${number} · 10${toSuperscript(exponent)}` : number;
};

/**
 * Format a number with significant digits.
 * @param {number} x
 */
export const formatPrecise = (x, digits = 2) => formatNotation(x.toPrecision(digits));

/**
 * Format a number as a multiple of a power of ten.
 * @param {number} x
 */
export const formatPowerOfTen = (x, digits = 2) => formatNotation(x.toExponential(digits - 1));

/**
 * Format a number with fixed decimals. One that would round
 * to 0 gets two significant digits instead.
 * @param {number} x
 */
export const formatFixed = (x, digits = 3) => {
  const plain = x.toFixed(digits);
  return x !== 0 && Number(plain) === 0 ? formatPrecise(x) : formatNotation(plain);
};

/**
 * Format a probability as percent. Only probability 1 is
 * "100 %": smaller ones are not rounded up to it.
 * @drawing
 * @param {number} p
 */
export const formatPercent = (p) => {
  if (p >= 1) return "100 %";
  if (p >= 0.99995) return ">99.99 %";
  if (p >= 0.9995) return `${(100 * p).toFixed(2)} %`;
  if (p >= 0.1) return `${(100 * p).toFixed(1)} %`;
  if (p >= 0.0001) return `${(100 * p).toFixed(2)} %`;
  if (p >= 0.000001) return `${(100 * p).toPrecision(2)} %`;
  return p > 0 ? "<0.0001 %" : "0 %";
};

const wholePercent = new Intl.NumberFormat(pageLanguage(), { maximumFractionDigits: 0 });
const smallPercent = new Intl.NumberFormat(pageLanguage(), { maximumFractionDigits: 1 });

/**
 * Format a probability as whole percent in the reader's locale, with one decimal below 1 %.
 * @drawing
 * @param {number} p
 */
export const formatWholePercent = (p) => {
  if (p > 0 && p < 0.001) return `<${smallPercent.format(0.1)}\u00a0%`;
  if (p < 1 && p >= 0.995) return `>${wholePercent.format(99)}\u00a0%`;
  return `${(p < 0.01 ? smallPercent : wholePercent).format(100 * p)}\u00a0%`;
};

/**
 * The model's probability and the one after the processors,
 * as "12.9 → 8.46 %"; one number if equal.
 * @param {number} model
 * @param {number} used
 */
export const formatModelAndUsed = (model, used) => {
  const [before, after] = [model, used].map(formatPercent);
  if (before === after) return after;
  return before.endsWith(" %") && after.endsWith(" %")
    ? `${before.slice(0, -2)} → ${after}`
    : `${before} → ${after}`;
};

export const formatCount = (/** @type {number} */ number) => number.toLocaleString("en");

/**
 * Choose the singular or the plural text. Both are whole
 * texts, so that languages can translate them.
 * @param {number} number
 * @param {string} one
 * @param {string} many
 */
export const pluralText = (number, one, many) =>
  number === 1 ? one : many.replace("{n}", formatCount(number));

/**
 * A share as a CSS length in percent.
 * @drawing
 * @param {number} share
 */
export const toCssLength = (share) => `${100 * share}%`;

/**
 * Seconds as whole milliseconds.
 * @drawing
 * @param {number} s
 */
export const formatMilliseconds = (s) => `${(1000 * s).toFixed(0)} ms`;

/**
 * Outcome of a beam search candidate -> text.
 * @type {Record<string, string>}
 */
export const FATE_TEXT = {
  kept: tr("kept"),
  pruned: tr("dropped"),
  finished: tr("finished"),
  finished_worse: tr("finished, but worse than the others"),
  blocked: tr("ended without counting"),
};
