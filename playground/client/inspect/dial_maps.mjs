// The map of a dial: every text that the run shown would write along it. Fetched once for each run.
import { StoppableQuestion } from "../jobs/question.mjs";
import { fetchRecorded } from "../runs/recorded_runs.mjs";
import { askServer } from "../shell/questions.mjs";
import { addPieces } from "./what_if_questions.mjs";

// Others' maps are being computed, or runs keep the server busy.
const LATER_MS = 5000;
const MAX_TRIES = 24;
// Within this share of its value from an edge, a run may write the text of the other side.
const EDGE_WIDTH = 1e-3;
// "cut": the map ends before the text does.
const ENDED = ["eos", "length", "cut"];

/**
 * A stretch of a dial on which the text does not change.
 * @typedef {{ low: number, high: number, token_ids: number[], end: string, sure: boolean }} Interval
 */

/** @typedef {{ dial: string, intervals: Interval[], pieces: Record<string, string> }} DialMap */

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
 * @param {DialMap} map
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
 * @param {DialMap} map
 * @param {number} value
 */
export function moveOffEdge({ intervals }, value) {
  const one = intervals.find(({ low, high }) => low <= value && value <= high);
  if (!one || !isKnown(one)) return value;
  const edges = [one === intervals[0] ? null : one.low, one === intervals.at(-1) ? null : one.high];
  const near = edges.some((edge) => edge !== null && Math.abs(value - edge) <= EDGE_WIDTH * edge);
  return near ? (one.low + one.high) / 2 : value;
}

/** The maps of the dials of one run at a time. */
export class DialMaps {
  #run = "";
  /** @type {Map<string, DialMap | null | undefined>} by dial; undefined while it is fetched */
  #maps = new Map();
  /** @type {Map<string, StoppableQuestion>} */
  #questions = new Map();
  #fetched;

  /** @param {() => void} fetched called when a map is there */
  constructor(fetched) {
    this.#fetched = fetched;
  }

  /**
   * Return the map of a dial, null or undefined if it is not known.
   * @param {Run} run
   * @param {string} dial
   */
  get(run, dial) {
    return run.id === this.#run ? this.#maps.get(dial) : undefined;
  }

  /**
   * Fetch the map of a dial, unless that was done.
   * @param {Run} run an ended one
   * @param {string} dial
   */
  fetch(run, dial) {
    if (run.id !== this.#run) {
      this.#run = run.id;
      this.#maps.clear();
    }
    if (this.#maps.has(dial)) return;
    this.#maps.set(dial, undefined);
    this.#load(run, dial, MAX_TRIES);
  }

  /**
   * @param {Run} run
   * @param {string} dial
   * @param {number} tries
   */
  async #load(run, dial, tries) {
    const answer = await this.#ask(run, dial).catch(() => null);
    if (run.id !== this.#run) return;
    if (answer?.later && tries) {
      setTimeout(() => run.id === this.#run && this.#load(run, dial, tries - 1), LATER_MS);
      return;
    }
    const map = answer?.map ?? null;
    this.#maps.set(dial, map);
    if (map) addPieces(run, map.pieces);
    this.#fetched();
  }

  /**
   * @param {Run} run
   * @param {string} dial
   */
  async #ask(run, dial) {
    if (run.entry)
      return run.dial_maps?.includes(dial) ? fetchRecorded(`${run.entry}.${dial}`) : null;
    const question = this.#questions.get(dial) ?? new StoppableQuestion({ latestOnly: true });
    this.#questions.set(dial, question);
    return question.ask((press) => askServer({ action: "dial_map", run: run.id, dial, press }));
  }
}
