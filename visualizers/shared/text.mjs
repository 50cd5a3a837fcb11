// Tokens and probabilities in words that a person can read.
import { tr } from "./tr.mjs";

const MARKS = { "\n": "⏎", "\t": "⇥", "\r": "␍", "\u0000": "␀", "\u00a0": "⍽" };
// Control characters, spaces without width or that do not break, and marks of writing direction.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const INVISIBLE = /[\u0000-\u001f\u00a0\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

// Text of a token with invisible characters made visible; a space inside words stays a space.
export const visible = (text) =>
  text.replace(
    INVISIBLE,
    (c) => MARKS[c] || `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
  );

/**
 * The text of a token as it was recorded; one that no record names is shown as its number.
 * @param {Run} run
 */
export const textOfId = (run, id) => run.pieces[id] ?? `#${id}`;

/** @param {Run} run */
export const textOfIds = (run, ids) => visible(ids.map((id) => textOfId(run, id)).join(""));

/** @param {Run} run */
export const piece = (run, id) =>
  visible(textOfId(run, id)).replace(/^ +| +$/g, (s) => "·".repeat(s.length));

const HIGH_DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const raised = (digits) => [...digits].map((c) => HIGH_DIGITS[Number(c)] ?? "⁻").join("");

// A number in JavaScript's notation as a person writes it: a true minus sign, powers of ten raised.
const written = (text) => {
  const [number, exponent] = text.replace("-", "−").replace("e+", "e").split("e");
  return exponent ? `${number} · 10${raised(exponent)}` : number;
};

// So many digits of a number however small or large it is.
export const precise = (x, digits = 2) => written(x.toPrecision(digits));

// The same as a power of ten.
export const power = (x, digits = 2) => written(x.toExponential(digits - 1));

/**
 * A number with so many digits behind the point; one that would be lost there keeps two that say something.
 */
export const fixed = (x, digits = 3) => {
  const plain = x.toFixed(digits);
  return x !== 0 && Number(plain) === 0 ? precise(x) : written(plain);
};

/**
 * A probability in words, as exact as it is large; only what is certain is 100 %.
 * @drawing
 */
export const percent = (p) => {
  if (p >= 1) return "100 %";
  if (p >= 0.99995) return ">99.99 %";
  if (p >= 0.9995) return `${(100 * p).toFixed(2)} %`;
  if (p >= 0.1) return `${(100 * p).toFixed(1)} %`;
  if (p >= 0.0001) return `${(100 * p).toFixed(2)} %`;
  if (p >= 0.000001) return `${(100 * p).toPrecision(2)} %`;
  return p > 0 ? "<0.0001 %" : "0 %";
};

// The model's probability and the one that was used, where they differ.
export const bothOf = (model, used) => {
  const [before, after] = [model, used].map(percent);
  if (before === after) return after;
  return before.endsWith(" %") && after.endsWith(" %")
    ? `${before.slice(0, -2)} → ${after}`
    : `${before} → ${after}`;
};

export const grouped = (/** @type {number} */ number) => number.toLocaleString("en");

/**
 * So many of a thing: each is a text of its own, and {n} in that of many is the number.
 * @param {number} number
 * @param {string} one
 * @param {string} many
 */
export const counted = (number, one, many) =>
  number === 1 ? one : many.replace("{n}", grouped(number));

/**
 * A share as a length in a style.
 * @drawing
 */
export const lengthOf = (share) => `${100 * share}%`;

/**
 * Seconds, where they are few.
 * @drawing
 */
export const milliseconds = (s) => `${(1000 * s).toFixed(0)} ms`;

// What became of a search's candidate.
export const SAY = {
  kept: tr("kept"),
  pruned: tr("dropped"),
  finished: tr("finished"),
  finished_worse: tr("finished, but worse than the others"),
  blocked: tr("ended without counting"),
};
