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
 * A text in the quotes of the page's language.
 * @param {string} text
 */
export const quoteText = (text) => tr("“{text}”", { text });

/** @type {Map<string, Intl.NumberFormat>} */
const numberFormats = new Map();

/**
 * A format of numbers in the reader's locale; created once, because that is slow.
 * @param {Intl.NumberFormatOptions} options
 */
function numberFormat(options) {
  const key = JSON.stringify(options);
  const known = numberFormats.get(key) ?? new Intl.NumberFormat(pageLanguage(), options);
  numberFormats.set(key, known);
  return known;
}

/**
 * Write a number in the reader's locale, with a minus sign and not with a hyphen.
 * @param {number} x
 * @param {Intl.NumberFormatOptions} options
 */
const toLocale = (x, options) =>
  numberFormat(options)
    .format(x || 0)
    .replace("-", "−");

/**
 * A sign within numbers in the reader's locale.
 * @param {"decimal" | "group"} type
 */
export const numberSign = (type) =>
  numberFormat({})
    .formatToParts(1000.5)
    .find((part) => part.type === type)?.value ?? "";

const SMALL = 0.1;
const TINY = 0.0001;

/** @param {number} x */
const isSmall = (x) => x !== 0 && Math.abs(x) < SMALL;

/**
 * Format a number with significant digits, also where they are zeros.
 * @drawing
 * @param {number} x
 */
export const formatPrecise = (x, digits = 2) =>
  x !== 0 && (Math.abs(x) < TINY || Math.abs(x) >= 10 ** 6)
    ? formatPowerOfTen(x, digits)
    : toLocale(x, { minimumSignificantDigits: digits, maximumSignificantDigits: digits });

/**
 * Format a number as a multiple of a power of ten.
 * @param {number} x
 */
export function formatPowerOfTen(x, digits = 2) {
  const [number, exponent] = x.toExponential(digits - 1).split("e");
  const decimals = digits - 1;
  const text = toLocale(Number(number), {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  });
  return `${text} · 10${toSuperscript(exponent.replace("+", ""))}`;
}

/**
 * Format a number with two decimals, or fewer. A number below 0.1 has two significant digits.
 * @param {number} x
 */
export const formatFixed = (x, digits = 2) =>
  isSmall(x)
    ? formatPrecise(x)
    : toLocale(x, { minimumFractionDigits: digits, maximumFractionDigits: digits });

/**
 * Format a number as formatFixed does, without zeros at its end, and the shorter the larger it is.
 * @param {number} x
 * @param {number} [decimals] at most
 */
export function formatNumber(x, decimals = 2) {
  if (isSmall(x)) return formatPrecise(x);
  const most = Math.abs(x) < 10 ? 2 : Math.abs(x) < 100 ? 1 : 0;
  return toLocale(x, { maximumFractionDigits: Math.min(decimals, most) });
}

/**
 * Format a value that a person set, with all of its digits.
 * @param {number} x
 */
export const formatSetting = (x) => toLocale(x, { maximumSignificantDigits: 6 });

/** @param {number} p */
function percentDigits(p) {
  if (p < 0.001) return { minimumSignificantDigits: 2, maximumSignificantDigits: 2 };
  const digits = p < 0.1 || p >= 0.9995 ? 2 : 1;
  return { minimumFractionDigits: digits, maximumFractionDigits: digits };
}

/**
 * Format a probability as percent with at most two decimals, or two significant digits below
 * 0.1 %. Only probability 1 is "100 %": smaller ones are not rounded up to it.
 * @drawing
 * @param {number} p
 */
export function formatPercent(p) {
  if (p >= 1 || p === 0) return `${toLocale(100 * Math.min(p, 1), {})} %`;
  if (p >= 0.99995) return `>${formatFixed(99.99)} %`;
  if (p < 0.000001) return `<${formatPrecise(TINY, 1)} %`;
  return `${toLocale(100 * p, percentDigits(p))} %`;
}

/**
 * Format a probability as whole percent in the reader's locale, with one decimal below 1 %.
 * @drawing
 * @param {number} p
 */
export function formatWholePercent(p) {
  if (p > 0 && p < 0.001) return `<${formatFixed(SMALL, 1)}\u00a0%`;
  if (p < 1 && p >= 0.995) return ">99\u00a0%";
  return `${toLocale(100 * p, { maximumFractionDigits: p < 0.01 ? 1 : 0 })}\u00a0%`;
}

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

/** @param {number} number */
export const formatCount = (number) => toLocale(number, {});

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
export const formatMilliseconds = (s) => `${formatFixed(1000 * s, 0)} ms`;

/**
 * Format a duration in seconds.
 * @param {number} s
 */
export const formatSeconds = (s) => tr("{n} s", { n: formatFixed(s, 1) });

/**
 * Format a duration in milliseconds, or in seconds from one on.
 * @param {number} s
 */
export const formatDuration = (s) => (s < 1 ? formatMilliseconds(s) : formatSeconds(s));

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
