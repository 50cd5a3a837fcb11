// What a dial map says about a value of the dial: its stretch, its text, and words about both.
import { formatFixed } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

// Within this share of its value from an edge, a run may write the text of the other side.
const EDGE_WIDTH = 1e-3;
// "cut": the map ends before the text does.
const ENDED = ["eos", "length", "cut"];

/**
 * A stretch of a dial on which the text does not change.
 * @typedef {{ low: number, high: number, token_ids: number[], end: string, sure: boolean }} Interval
 */

/**
 * A cell of the picture: its row, its first and last interval, its word, and the lowest rank of its
 * tokens in the model.
 * @typedef {[number, number, number, string, number]} Cell
 *
 * What the server computes for the picture: the ends of the intervals, the cells, the figures of each
 * interval's text, and the seconds that a map of two dials would take.
 * @typedef {{ edges: number[], rows: number, cells: Cell[], figures: Record<string, number>[],
 *   two_dials_s: number | null }} MapView
 *
 * @typedef {{ dial: string, value: number, low: number, high: number, intervals: Interval[],
 *   pieces: Record<string, string>, notes?: string[], reason?: string, view: MapView }} DialMap
 */

/**
 * What a map says about a value: the place of its text, and the first token that differs from the
 * run's text (null if none does).
 * @typedef {{ place: number, interval: Interval, first: number | null }} Place
 */

/**
 * Return whether a run writes the text of a stretch, as far as the map goes.
 * @param {Interval} interval
 */
export const isKnown = ({ sure, end }) => sure && ENDED.includes(end);

/**
 * Return how many tokens two texts share at their beginning.
 * @param {number[]} a
 * @param {number[]} b
 */
export function countShared(a, b) {
  const at = a.findIndex((id, i) => id !== b[i]);
  return at < 0 ? a.length : at;
}

/**
 * Return whether a stretch has the run's text, as far as the map goes.
 * @param {Interval} interval
 * @param {number[]} own
 */
export function isSameText({ token_ids, end }, own) {
  const shared = countShared(token_ids, own);
  return shared === token_ids.length && (end === "cut" || shared === own.length);
}

/**
 * Return the place of a value; null where the map does not know the text.
 * @param {Pick<DialMap, "intervals">} map
 * @param {number[]} own tokens of the run's text
 * @param {number} value
 * @returns {Place | null}
 */
export function findPlace({ intervals }, own, value) {
  const distance = (/** @type {Interval} */ { low, high }) =>
    Math.max(low - value, value - high, 0);
  let place = 0;
  for (const [i, one] of intervals.entries())
    if (distance(one) < distance(intervals[place])) place = i;
  const interval = intervals[place];
  if (!interval || !isKnown(interval)) return null;
  const shared = countShared(interval.token_ids, own);
  return { place, interval, first: isSameText(interval, own) ? null : shared };
}

/**
 * Return a value for a run: the middle of the stretch if the given one is within the width of an edge.
 * @param {Pick<DialMap, "intervals">} map
 * @param {number} value
 */
export function moveOffEdge({ intervals }, value) {
  const one = intervals.find(({ low, high }) => low <= value && value <= high);
  if (!one || !isKnown(one)) return value;
  const edges = [one === intervals[0] ? null : one.low, one === intervals.at(-1) ? null : one.high];
  const near = edges.some((edge) => edge !== null && Math.abs(value - edge) <= EDGE_WIDTH * edge);
  return near ? (one.low + one.high) / 2 : value;
}

/**
 * Return the ends of a stretch as texts that differ, with two decimals if these suffice.
 * @param {Interval} interval
 */
export function formatStretch({ low, high }) {
  for (const digits of [2, 3, 4]) {
    const ends = [low, high].map((value) => formatFixed(value, digits));
    if (ends[0] !== ends[1] || digits === 4) return ends;
  }
  return [];
}

/**
 * Return what a caption says about the text at a value: about its stretch, and which text it is.
 * @param {Pick<DialMap, "intervals">} map
 * @param {Place | null} place
 */
export function captionTexts({ intervals }, place) {
  if (!place) return [tr("Text not known here")];
  const [low, high] = formatStretch(place.interval);
  const which = tr("text {n} of {count}", { n: place.place + 1, count: intervals.length });
  if (place.first !== null) return [tr("New from token {n} on", { n: place.first + 1 }), which];
  const { end, token_ids } = place.interval;
  const n = token_ids.length;
  if (end === "cut") return [tr("Same {n} tokens from {low} to {high}", { n, low, high }), which];
  return [tr("Same text from {low} to {high}", { low, high }), which];
}
