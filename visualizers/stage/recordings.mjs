// Runs by id, and which of them is shown under which key: what the stages draw from.
import { addStep, emptyRecord } from "../shared/record.mjs";

/**
 * Whoever draws, asks the server or keeps the address.
 * @typedef {object} Watcher
 * @property {(run: Run) => void} [changed] a run has something new to show
 * @property {(id: string) => void} [missed] messages of a run are missing
 * @property {() => void} [restored] a run is another than what was drawn of it
 * @property {(link: string) => void} [linked] a run begins that the address may make again
 * @property {(key: string) => void} [active] what goes on under a key has changed
 * @property {(now: { key: string, on: boolean }) => void} [covered] whether a stage draws less than the run
 */

const KEPT = 24;

export class Recordings {
  /** @type {Map<string, Run>} */
  runs = new Map();
  /** @type {Map<string, string>} the run that is shown under a key */
  #current = new Map();
  /** @type {Watcher[]} */
  #watchers = [];
  #recorded = 0;
  /** @type {Map<string, Activity>} what goes on under a key */
  #active = new Map();

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

  activity = (/** @type {string} */ key) => this.#active.get(key);
  busy = (/** @type {string} */ key) =>
    this.#active.has(key) && this.#active.get(key).phase !== "stopped";
  busyKeys = () => [...this.#active.keys()].filter(this.busy);

  /**
   * Say what goes on under a key; null for nothing.
   * @param {string} key
   * @param {Activity | null} activity
   */
  act(key, activity) {
    if (activity) this.#active.set(key, activity);
    else if (!this.#active.delete(key)) return;
    this.tell("active", key);
  }

  /**
   * @param {string} key
   * @param {Run} run
   */
  keep(key, run) {
    this.runs.set(run.id, run);
    this.#current.set(key, run.id);
    while (this.runs.size > KEPT) this.runs.delete(this.runs.keys().next().value);
  }

  /**
   * @param {Run | undefined} run
   * @param {number} index
   * @param {number | null} [node] of a search: the node of that step that is looked at
   */
  select(run, index, node = null) {
    if (!run?.steps.length) return;
    lookAt(run, index, node);
    this.tell("changed", run);
  }

  /**
   * A recorded run: shown whole, or as far as a player has come; nothing is asked of a model.
   * @param {string} key
   * @param {Recorded} recorded
   * @param {Status} status
   */
  showTrace(key, recorded, status) {
    const { trace } = recorded;
    /** @type {Run} */
    const run = {
      ...trace,
      ...newRun(`recorded-${++this.#recorded}`, 0, status),
      pieces: { ...trace.pieces },
      source: recorded,
      link: "",
      fields: Object.keys(trace).filter((k) => k !== "schema"),
    };
    this.keep(key, run);
    this.rewind(run, trace.steps.length, status);
    return run;
  }

  /**
   * Show so many steps of a recorded run.
   * @param {Run} run
   * @param {number} count
   * @param {Status} status what it has come to at its end
   */
  rewind(run, count, status) {
    if (count < run.steps.length) Object.assign(run, emptyRecord(), { selected: null, node: null });
    run.follow = true;
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
   * A run that is known already is shown again where a stage has this key.
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
 * Look at a step of a run that has some.
 * @param {Run} run
 * @param {number} index
 * @param {number | null} node
 */
export function lookAt(run, index, node) {
  const last = run.steps.length - 1;
  run.selected = Math.max(0, Math.min(last, index));
  run.node = node;
  run.follow = run.status === "running" && run.selected === last;
}

/**
 * A run of which nothing is known but its id: its header fills in the rest.
 * @param {string} id
 * @param {number} next
 * @param {Status} status
 * @returns {any}
 */
export const newRun = (id, next, status) => ({
  id,
  next,
  status,
  ...emptyRecord(),
  outputs: [],
  pieces: {},
  selected: null,
  node: null,
  follow: true,
  error: "",
});
