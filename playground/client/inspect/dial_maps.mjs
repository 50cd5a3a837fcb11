// The map of a dial: every text that the run shown would write along it. Fetched once for each run.
import { StoppableQuestion } from "../jobs/question.mjs";
import { fetchRecorded } from "../runs/recorded_runs.mjs";
import { store } from "../shell/page_state.mjs";
import { askServer } from "../shell/questions.mjs";
import { addPieces } from "./what_if_questions.mjs";

// Others' maps are being computed, or runs keep the server busy.
const LATER_MS = 5000;
const MAX_TRIES = 24;

/** @import { DialMap } from "../../../visualizers/dial_map/intervals.mjs" */

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
    const map = answer?.map ? { ...answer.map, view: answer.view } : null;
    this.#maps.set(dial, map);
    if (map) {
      addPieces(run, map.pieces);
      run.maps = { ...run.maps, [dial]: map };
      store.tell("changed", run);
    }
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
