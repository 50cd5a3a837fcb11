// Where the places of a text stand in a row: the prompt, what the cache held, what was read, what was taken back.
import { el } from "../shared/dom.mjs";
import { lengthOf } from "../shared/text.mjs";

const PROMPT = 0.22;
const TICKS = [4, 8, 16, 32, 64, 128, 256, 512, 1024];
const MANY = 5;

/**
 * How long a row is: the tokens before the new ones, and room for the new ones.
 * @typedef {{ start: number, room: number }} Scale
 */

/**
 * While tokens come there is room for some more, so that rows need not be drawn anew for each.
 * @param {any} shown what the summary shows of the last step
 * @param {boolean} ended
 * @returns {Scale}
 * @drawing
 */
export function scaleOf({ start, most }, ended) {
  if (start === null) return { start: 0, room: 1 };
  const fresh = Math.max(1, most - start);
  return { start, room: ended ? fresh : 16 * Math.ceil(fresh / 16) };
}

/**
 * Where a place of the text stands, from 0 to 1; a long prompt is drawn shorter than it is.
 * @param {number} place tokens before it
 * @param {Scale} scale
 * @drawing
 */
export function placeOf(place, { start, room }) {
  const prompt = Math.min(PROMPT, start / (start + room));
  if (place <= start) return start ? (prompt * place) / start : 0;
  return Math.min(1, prompt + ((1 - prompt) * (place - start)) / room);
}

/**
 * The tokens of the new text at which the scale has a number: a few.
 * @param {Scale} scale
 * @drawing
 */
export function ticksOf({ room }) {
  const every = TICKS.find((tick) => room / tick < MANY) ?? TICKS.at(-1);
  return Array.from({ length: Math.floor(room / every) }, (_, i) => (i + 1) * every);
}

/**
 * From one place of the text to another.
 * @param {string} kind
 * @param {[number, number]} places
 * @param {Scale} scale
 * @drawing
 */
function segment(kind, [from, to], scale) {
  const [left, right] = [from, to].map((place) => placeOf(place, scale));
  return el("i", { class: kind, style: { left: lengthOf(left), width: lengthOf(right - left) } });
}

/**
 * What a pass read, after what the cache held of it, and what of it was taken back after it.
 * @param {any} pass
 * @param {any} row what the summary shows of it
 * @param {Scale} scale
 */
export function segmentsOf({ read, cached, length, aside }, { gone }, scale) {
  const end = segment("end", [scale.start, scale.start], scale);
  const back = gone.length ? [segment("gone", [length - gone.length, length], scale)] : [];
  if (!read) return [...back, end];
  if (aside) return [segment("other", [0, cached + read], scale), ...back, end];
  const held = length - read;
  return [segment("held", [0, held], scale), segment("read", [held, length], scale), ...back, end];
}

/** @param {Scale} scale */
export const axisOf = (scale, prompt) => [
  scale.start ? el("span", { class: "who" }, prompt) : null,
  ticksOf(scale).map((tick) =>
    el(
      "span",
      { class: "tick", style: { left: lengthOf(placeOf(scale.start + tick, scale)) } },
      tick,
    ),
  ),
];
