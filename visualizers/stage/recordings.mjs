// The store that stages draw from: runs by id, and the current run of every key.

import { addStep, createEmptyRecord, findDecidedIndex } from "../shared/record.mjs";
import { addTemplates } from "../shared/server_text.mjs";

/**
 * An observer of the store, such as the stages, the connection to the server or the page's address.
 * @typedef {object} Watcher
 * @property {(run: Run) => void} [changed] a run has new content
 * @property {(id: string) => void} [missed] messages of a run are missing
 * @property {() => void} [restored] runs were replaced, so stages redraw them from the first step
 * @property {(link: string) => void} [linked] a run began that a link can repeat
 * @property {(key: string) => void} [active] the activity of a key changed
 * @property {(now: { key: string, on: boolean }) => void} [covered] a stage began or ceased to hide
 *   steps of its run
 */

// A comparison alone has up to 20 of them.
const MAX_RUNS = 44;

export class Recordings {
  /** @type {Map<string, Run>} */
  runs = new Map();
  /** @type {Map<string, string>} key -> id of its current run */
  #current = new Map();
  /** @type {Watcher[]} */
  #watchers = [];
  #recorded = 0;
  /** @type {Map<string, Activity>} key -> its activity */
  #activities = new Map();

  /** @param {Watcher} watcher */
  watch(watcher) {
    this.#watchers.push(watcher);
  }

  /**
   * @param {keyof Watcher} what
   * @param {any} [value]
   */
  tell(what, value) {
    for (const watcher of this.#watchers) watcher[what]?.(value);
  }

  runId = (/** @type {string} */ key) => this.#current.get(key) || "";
  shown = (/** @type {string} */ key) => this.runs.get(this.runId(key));

  activity = (/** @type {string} */ key) => this.#activities.get(key);
  busy = (/** @type {string} */ key) =>
    (this.#activities.get(key)?.phase ?? "stopped") !== "stopped";
  busyKeys = () => [...this.#activities.keys()].filter(this.busy);

  /**
   * Set the activity of a key, or end it with null.
   * @param {string} key
   * @param {Activity | null} activity
   */
  act(key, activity) {
    if (activity) this.#activities.set(key, activity);
    else if (!this.#activities.delete(key)) return;
    this.tell("active", key);
  }

  /**
   * @param {string} key
   * @param {Run} run
   */
  keep(key, run) {
    this.runs.set(run.id, run);
    this.#current.set(key, run.id);
    for (const oldest of [...this.runs.keys()].slice(0, -MAX_RUNS)) this.runs.delete(oldest);
  }

  /**
   * @param {Run | undefined} run
   * @param {number} index
   * @param {number | null} [node] of a beam search: the selected node of that step
   * @param {number | null} [offset] of the selected token among those of the step; null for the decided one
   */
  select(run, index, node = null, offset = null) {
    if (!run?.steps.length) return;
    selectStep(run, index, node, offset);
    this.tell("changed", run);
  }

  /**
   * Add a recorded run and show all of its steps. No model is asked.
   * @param {string} key
   * @param {Recorded} recorded
   * @param {Status} status
   */
  showTrace(key, recorded, status) {
    const { trace } = recorded;
    addTemplates(trace.templates);
    /** @type {Run} */
    const run = {
      ...trace,
      ...createRun(`recorded-${++this.#recorded}`, 0, status),
      pieces: { ...trace.pieces },
      source: recorded,
      link: "",
      fields: Object.keys(trace).filter((k) => k !== "schema" && k !== "templates"),
    };
    this.keep(key, run);
    this.rewind(run, trace.steps.length, status);
    return run;
  }

  /**
   * Show the first `count` steps of a recorded run.
   * @param {Run} run
   * @param {number} count
   * @param {Status} status of the run when all of its steps are shown
   */
  rewind(run, count, status) {
    if (count < run.steps.length)
      Object.assign(run, createEmptyRecord(), { selected: null, node: null, offset: null });
    run.follow = true;
    if (!run.source) return;
    const { trace: source, shown } = run.source;
    for (let i = run.steps.length; i < count; i++) addStep(run, source.steps[i], shown[i]);
    const ended = count === source.steps.length;
    Object.assign(run, {
      status: ended ? status : "paused",
      outputs: ended ? source.outputs : [],
      timing: ended ? source.timing : undefined,
      metrics: ended ? source.metrics : undefined,
    });
    this.tell("changed", run);
  }

  /**
   * Make a known run the current one of a key.
   * @param {string} key
   * @param {Run} run
   */
  show(key, run) {
    this.runs.set(run.id, run);
    this.#current.set(key, run.id);
    this.tell("changed", run);
  }
}

/**
 * Select a step of a run that has at least one.
 * @param {Run} run
 * @param {number} index
 * @param {number | null} node
 * @param {number | null} offset
 */
export function selectStep(run, index, node, offset) {
  const last = run.steps.length - 1;
  run.selected = Math.max(0, Math.min(last, index));
  const decided = findDecidedIndex(run.steps[last]);
  run.node = node;
  run.offset = offset;
  const newest = run.selected === last && (offset ?? decided) === decided;
  run.follow = run.status === "running" && newest;
}

/**
 * A run with an id only; its header message fills in the rest.
 * @param {string} id
 * @param {number} next
 * @param {Status} status
 * @returns {any}
 */
export const createRun = (id, next, status) => ({
  id,
  next,
  status,
  ...createEmptyRecord(),
  outputs: [],
  pieces: {},
  selected: null,
  node: null,
  offset: null,
  follow: true,
  error: "",
});
