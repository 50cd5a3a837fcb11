// The runs of the page by id, fed by one hidden bus. Every message has a number: what comes twice is
// left alone, and after a gap the whole run is asked for.
import { addStep, emptyRecord } from "../../visualizers/shared/record.mjs";

/**
 * @typedef {import("./messages.d.ts").Message} Message
 * @typedef {import("./messages.d.ts").NumberedMessage} NumberedMessage
 * @typedef {import("./messages.d.ts").StartMessage} StartMessage
 * @typedef {import("./messages.d.ts").DeltaMessage} DeltaMessage
 * @typedef {import("./messages.d.ts").FinishMessage} FinishMessage
 * @typedef {import("./messages.d.ts").FailMessage} FailMessage
 * @typedef {import("./messages.d.ts").StateMessage} StateMessage
 */

/**
 * Whoever draws, asks the server or keeps the address.
 * @typedef {object} Watcher
 * @property {(run: Run) => void} [changed] a run has something new to show
 * @property {(id: string) => void} [missed] messages of a run are missing
 * @property {() => void} [restored] a run is another than what was drawn of it
 * @property {(link: string) => void} [linked] a run begins that the address may make again
 */

const KEPT = 24;

export class Store {
  /** @type {Map<string, Run>} */
  runs = new Map();
  /** @type {Map<string, string>} the run that is shown under a key */
  #current = new Map();
  /** @type {Watcher[]} */
  #watchers = [];
  #recorded = 0;

  /** @param {Watcher} watcher */
  watch(watcher) {
    this.#watchers.push(watcher);
  }

  /**
   * @param {keyof Watcher} what
   * @param {any} [value]
   */
  #tell(what, value) {
    for (const watcher of this.#watchers) watcher[what]?.(value);
  }

  runId = (/** @type {string} */ key) => this.#current.get(key) || "";
  shown = (/** @type {string} */ key) => this.runs.get(this.runId(key));

  /** @param {string} text a message as JSON */
  receive(text) {
    if (!text) return;
    /** @type {Message} */
    const message = JSON.parse(text);
    if (message.kind === "state") this.#receiveState(message);
    else this.#receiveNumbered(message);
  }

  /** @param {NumberedMessage} message */
  #receiveNumbered(message) {
    if (message.kind === "start") this.#begin(message);
    if (message.kind === "fail" && !this.runs.has(message.run)) return this.#refuse(message);
    const run = this.runs.get(message.run);
    // A page that missed even the beginning asks for the whole, or it would stay silent to the end.
    if (!run || message.seq > run.next) return this.#tell("missed", message.run);
    if (message.seq < run.next) return;
    this.#take(run, message);
    this.#tell("changed", run);
  }

  /** @param {StateMessage} message */
  #receiveState({ run: id, messages }) {
    if (messages[0]?.kind === "start") this.#begin({ ...messages[0], run: id });
    const run = this.runs.get(id);
    if (!run) return;
    const { selected, follow } = run;
    Object.assign(run, emptyRecord());
    for (const part of messages) this.#take(run, part);
    if (!follow) Object.assign(run, { selected, follow });
    this.#tell("restored");
    this.#tell("changed", run);
  }

  /** @param {StartMessage | FailMessage} message */
  #begin(message) {
    if (this.runs.has(message.run)) return;
    this.#keep(message.strategy, newRun(message.run, message.seq, "running"));
  }

  /**
   * @param {string} key
   * @param {Run} run
   */
  #keep(key, run) {
    this.runs.set(run.id, run);
    this.#current.set(key, run.id);
    while (this.runs.size > KEPT) this.runs.delete(this.runs.keys().next().value);
  }

  /**
   * A request that never started leaves what was drawn before in place and says why.
   * @param {FailMessage} message
   */
  #refuse(message) {
    if (!this.#current.has(message.strategy)) {
      this.#begin(message);
      const empty = { status: "failed", config: {}, model: {}, eos_token_ids: [], prompt_ids: [] };
      Object.assign(this.runs.get(message.run), empty);
    }
    const run = this.shown(message.strategy);
    run.error = message.error;
    this.#tell("changed", run);
  }

  /**
   * @param {Run} run
   * @param {NumberedMessage} message
   */
  #take(run, message) {
    run.next = message.seq + 1;
    if ("parting" in message) run.parting = message.parting;
    if (message.kind === "start") this.#takeStart(run, message);
    else if (message.kind === "delta") takeDelta(run, message);
    else if (message.kind === "finish") takeFinish(run, message);
    else if (message.kind === "fail")
      Object.assign(run, { status: "failed", error: message.error });
  }

  /**
   * @param {Run} run
   * @param {StartMessage} message
   */
  #takeStart(run, { header, link }) {
    Object.assign(run, header, { link });
    run.pieces = { ...header.pieces };
    this.#tell("linked", link);
  }

  /**
   * @param {Run | undefined} run
   * @param {number} index
   */
  select(run, index) {
    if (!run?.steps.length) return;
    const last = run.steps.length - 1;
    run.selected = Math.max(0, Math.min(last, index));
    run.follow = run.status === "running" && run.selected === last;
    this.#tell("changed", run);
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
    this.#keep(key, run);
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
    if (count < run.steps.length) Object.assign(run, emptyRecord(), { selected: null });
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
    this.#tell("changed", run);
  }

  /**
   * A run that is known already is shown again where a stage has this key.
   * @param {string} key
   * @param {Run} run
   */
  show(key, run) {
    this.runs.set(run.id, run);
    this.#current.set(key, run.id);
    this.#tell("changed", run);
  }
}

/**
 * @param {Run} run
 * @param {DeltaMessage} message
 */
function takeDelta(run, { steps = [], shown = [], pieces = {}, texts = [] }) {
  Object.assign(run.pieces, pieces);
  for (const [i, step] of steps.entries()) addStep(run, step, shown[i]);
  for (const [sequence, keep, text] of texts)
    run.texts[sequence] = (run.texts[sequence] || "").slice(0, keep) + text;
}

/**
 * @param {Run} run
 * @param {FinishMessage} message
 */
function takeFinish(run, { rest }) {
  Object.assign(run, rest);
  const stopped = run.outputs.some((o) => o.finish_reason === "cancelled");
  run.status = stopped ? "stopped" : "finished";
}

/**
 * A run of which nothing is known but its id: its header fills in the rest.
 * @param {string} id
 * @param {number} next
 * @param {Status} status
 * @returns {any}
 */
const newRun = (id, next, status) => ({
  id,
  next,
  status,
  ...emptyRecord(),
  outputs: [],
  pieces: {},
  selected: null,
  follow: true,
  error: "",
});
