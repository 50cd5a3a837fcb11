// The runs of the page by id, fed by one hidden bus. Every message has a number: what comes twice is
// left alone, and after a gap the whole run is asked for.
import { addStep, emptyRecord } from "../../visualizers/shared/record.mjs";

const KEPT = 24;

export class Store {
  runs = new Map();
  #current = new Map();
  #watchers = [];
  #recorded = 0;

  // Whoever draws, asks the server or keeps the address is told: changed(run), missed(run id),
  // restored() and linked(link).
  watch(watcher) {
    this.#watchers.push(watcher);
  }

  #tell(what, value) {
    for (const watcher of this.#watchers) watcher[what]?.(value);
  }

  runId = (key) => this.#current.get(key) || "";
  shown = (key) => this.runs.get(this.runId(key));

  receive(text) {
    if (!text) return;
    const message = JSON.parse(text);
    if (message.kind === "start") this.#begin(message);
    if (message.kind === "fail" && !this.runs.has(message.run)) return this.#refuse(message);
    if (message.kind === "state" && message.messages[0]?.kind === "start")
      this.#begin({ ...message.messages[0], run: message.run });
    const run = this.runs.get(message.run);
    if (!run) return this.#unknown(message);
    if (message.kind === "state") this.#restore(run, message);
    else if (message.seq < run.next) return;
    else if (message.seq > run.next) return this.#tell("missed", message.run);
    else this.#take(run, message);
    this.#tell("changed", run);
  }

  // A page that missed even the beginning asks for the whole, or it would stay silent to the end.
  #unknown(message) {
    if (message.kind !== "state") this.#tell("missed", message.run);
  }

  #begin(message) {
    if (this.runs.has(message.run)) return;
    this.#keep(message.strategy, newRun(message.run, message.seq, "running"));
  }

  #keep(key, run) {
    this.runs.set(run.id, run);
    this.#current.set(key, run.id);
    while (this.runs.size > KEPT) this.runs.delete(this.runs.keys().next().value);
  }

  // A request that never started leaves what was drawn before in place and says why.
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

  #take(run, message) {
    run.next = message.seq + 1;
    if (message.kind === "start") {
      Object.assign(run, message.header, { link: message.link });
      run.pieces = { ...message.header.pieces };
      this.#tell("linked", message.link);
    }
    if (message.pieces) Object.assign(run.pieces, message.pieces);
    for (const step of message.steps || []) addStep(run, step);
    for (const [sequence, keep, text] of message.texts || [])
      run.texts[sequence] = (run.texts[sequence] || "").slice(0, keep) + text;
    if (message.kind === "finish") {
      Object.assign(run, message.rest);
      const stopped = run.outputs.some((o) => o.finish_reason === "cancelled");
      run.status = stopped ? "stopped" : "finished";
    }
    if (message.kind === "fail") Object.assign(run, { status: "failed", error: message.error });
  }

  #restore(run, message) {
    const { selected, follow } = run;
    Object.assign(run, emptyRecord());
    for (const part of message.messages) this.#take(run, part);
    if (!follow) Object.assign(run, { selected, follow });
    this.#tell("restored");
  }

  select(run, index) {
    if (!run?.steps.length) return;
    const last = run.steps.length - 1;
    run.selected = Math.max(0, Math.min(last, index));
    run.follow = run.status === "running" && run.selected === last;
    this.#tell("changed", run);
  }

  // A recorded run: shown whole, or as far as a player has come; nothing is asked of a model.
  showTrace(key, trace, status) {
    const run = {
      ...trace,
      ...newRun(`recorded-${++this.#recorded}`, 0, status),
      pieces: { ...trace.pieces },
      source: trace,
      link: "",
      fields: Object.keys(trace).filter((k) => k !== "schema"),
    };
    this.#keep(key, run);
    this.rewind(run, trace.steps.length, status);
    return run;
  }

  rewind(run, count, status) {
    if (count < run.steps.length) Object.assign(run, emptyRecord(), { selected: null });
    run.follow = true;
    const { source } = run;
    for (const step of source.steps.slice(run.steps.length, count)) addStep(run, step);
    const ended = count === source.steps.length;
    Object.assign(run, {
      status: ended ? status : "paused",
      outputs: ended ? source.outputs : [],
      timing: ended ? source.timing : undefined,
      metrics: ended ? source.metrics : undefined,
    });
    this.#tell("changed", run);
  }

  // A run that is known already is shown again where a stage has this key.
  show(key, run) {
    this.runs.set(run.id, run);
    this.#current.set(key, run.id);
    this.#tell("changed", run);
  }
}

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
