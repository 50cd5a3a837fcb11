// Tokens and probabilities in words that a person can read.

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

/**
 * A probability in words, as exact as it is large.
 * @drawing
 */
export const percent = (p) =>
  p >= 0.9995
    ? "100 %"
    : p >= 0.1
      ? `${(100 * p).toFixed(1)} %`
      : p >= 0.0001
        ? `${(100 * p).toFixed(2)} %`
        : p > 0
          ? "<0.01 %"
          : "0";

// Numbers with a true minus sign, as wide as a plus.
export const fixed = (x, digits = 3) => x.toFixed(digits).replace("-", "−");

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
