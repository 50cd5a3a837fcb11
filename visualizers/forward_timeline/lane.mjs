// The bar of a forward pass: the tokens in the cache, the
// tokens read and the tokens removed after it.
import { el } from "../shared/dom.mjs";
import { toCssLength } from "../shared/text.mjs";

/** @import { ForwardRow, ForwardSummary } from "../shared/summaries.d.ts" */

const MAX_PROMPT_SHARE = 0.22;
const LARGEST_TICK_STEP = 1024;
const TICK_STEPS = [4, 8, 16, 32, 64, 128, 256, 512, LARGEST_TICK_STEP];
const MAX_TICKS = 5;

/**
 * Scale of the bars in tokens: `start` for the prompt, and `room` for the new text.
 * @typedef {{ start: number, room: number }} Scale
 */

/**
 * The scale of all rows. While the run goes on it has spare
 * room, so that not every token changes it and redraws all rows.
 * @param {Pick<ForwardSummary, "start" | "most">} shown summary of the last step
 * @param {boolean} ended
 * @returns {Scale}
 * @drawing
 */
export function createScale({ start, most }, ended) {
  if (start === null || most === null) return { start: 0, room: 1 };
  const fresh = Math.max(1, most - start);
  return { start, room: ended ? fresh : 16 * Math.ceil(fresh / 16) };
}

/**
 * Position of a token in a bar, from 0 to 1. The prompt takes at most 22 % of the bar.
 * @param {number} place tokens before it
 * @param {Scale} scale
 * @drawing
 */
export function lanePosition(place, { start, room }) {
  const prompt = Math.min(MAX_PROMPT_SHARE, start / (start + room));
  if (place <= start) return start ? (prompt * place) / start : 0;
  return Math.min(1, prompt + ((1 - prompt) * (place - start)) / room);
}

/**
 * Numbers of new tokens at which the axis has ticks.
 * @param {Scale} scale
 * @drawing
 */
export function tickValues({ room }) {
  const every = TICK_STEPS.find((tick) => room / tick < MAX_TICKS) ?? LARGEST_TICK_STEP;
  return Array.from({ length: Math.floor(room / every) }, (_, i) => (i + 1) * every);
}

/**
 * A segment of a bar between two tokens.
 * @param {string} kind
 * @param {[number, number]} places
 * @param {Scale} scale
 * @drawing
 */
function createSegment(kind, [from, to], scale) {
  const [left, right] = [from, to].map((place) => lanePosition(place, scale));
  return el("i", {
    class: kind,
    style: { left: toCssLength(left), width: toCssLength(right - left) },
  });
}

/**
 * Segments of a pass: tokens in the cache, tokens read, and tokens removed after it.
 * @param {ForwardPass} pass
 * @param {ForwardRow} row summary of the pass
 * @param {Scale} scale
 */
export function createSegments({ read, cached, length, aside }, { gone }, scale) {
  const end = createSegment("end", [scale.start, scale.start], scale);
  const back = gone.length ? [createSegment("gone", [length - gone.length, length], scale)] : [];
  if (!read) return [...back, end];
  if (aside) return [createSegment("other", [0, cached + read], scale), ...back, end];
  const held = length - read;
  return [
    createSegment("held", [0, held], scale),
    createSegment("read", [held, length], scale),
    ...back,
    end,
  ];
}

/**
 * @param {Scale} scale
 * @param {string} prompt
 */
export const createAxis = (scale, prompt) => [
  ...(scale.start ? [el("span", { class: "who" }, prompt)] : []),
  ...tickValues(scale).map((tick) =>
    el(
      "span",
      { class: "tick", style: { left: toCssLength(lanePosition(scale.start + tick, scale)) } },
      tick,
    ),
  ),
];
