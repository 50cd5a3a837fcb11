// The bar of a forward pass: the tokens in the cache, the
// tokens read and the tokens removed after it.
import { el } from "../shared/dom.mjs";
import { lengthOf } from "../shared/text.mjs";

const PROMPT = 0.22;
const TICKS = [4, 8, 16, 32, 64, 128, 256, 512, 1024];
const MANY = 5;

/**
 * Scale of the bars in tokens: `start` for the prompt, and `room` for the new text.
 * @typedef {{ start: number, room: number }} Scale
 */

/**
 * The scale of all rows. While the run goes on it has spare
 * room, so that not every token changes it and redraws all rows.
 * @param {any} shown summary of the last step
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
 * Position of a token in a bar, from 0 to 1. The prompt takes at most 22 % of the bar.
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
 * Numbers of new tokens at which the axis has ticks.
 * @param {Scale} scale
 * @drawing
 */
export function ticksOf({ room }) {
  const every = TICKS.find((tick) => room / tick < MANY) ?? TICKS.at(-1);
  return Array.from({ length: Math.floor(room / every) }, (_, i) => (i + 1) * every);
}

/**
 * A segment of a bar between two tokens.
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
 * Segments of a pass: tokens in the cache, tokens read, and tokens removed after it.
 * @param {any} pass
 * @param {any} row summary of the pass
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
