// The page's runs by id, filled from the server's messages. Messages are numbered: duplicates are
// ignored, and after a gap the page requests the whole run.

import { addStep, createEmptyRecord, REFUSED_RUN } from "../../../visualizers/shared/record.mjs";
import { addTemplates, parseMessage } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { createRun, Recordings } from "../../../visualizers/stage/recordings.mjs";

/**
 * @typedef {import("../messages.js").Message} Message
 * @typedef {import("../messages.js").NumberedMessage} NumberedMessage
 * @typedef {import("../messages.js").StartMessage} StartMessage
 * @typedef {import("../messages.js").DeltaMessage} DeltaMessage
 * @typedef {import("../messages.js").FinishMessage} FinishMessage
 * @typedef {import("../messages.js").FailMessage} FailMessage
 * @typedef {import("../messages.js").ProgressMessage} ProgressMessage
 * @typedef {import("../messages.js").StateMessage} StateMessage
 */

export const CONNECTION_LOST = tr(
  "The connection was lost during the run. What arrived is kept; press Run to start again.",
);
const DECODING_TEXT = tr("Decoding…");
// What is far down the text is not seen without scrolling.
const FIRST_TOKENS = 30;
/** Phases that a further step ends. @type {Set<Activity["phase"]>} */
const IDLE = new Set(["starting", "waiting", "loading", "paused"]);

/** The runs that the server sends, as recordings that the stages show. */
export class Store extends Recordings {
  // Time of the latest sign of life from the server, as performance.now().
  heard = 0;

  /**
   * Take a message of the server.
   * @param {string} text a message as JSON
   */
  receive(text) {
    if (!text) return;
    /** @type {Message} */
    const message = parseMessage(text);
    this.heard = performance.now();
    if (message.kind === "progress") this.showProgress(message);
    else if (message.kind === "state") this.#receiveState(message);
    else this.#receiveNumbered(message);
  }

  /**
   * Note a new request for a key: clear the error of an earlier one.
   * @param {string} key
   */
  noteRequest(key) {
    this.heard = performance.now();
    const run = this.shown(key);
    if (run && run.status !== "failed") Object.assign(run, { error: "", again: false });
  }

  /**
   * Show a run's progress. A run that is being stopped keeps the status "stopping", and one that has
   * ended has none: its last messages may come by a faster connection than earlier progress.
   * @param {{ strategy: string, run: string, phase: Activity["phase"], says: string }} message
   */
  showProgress({ strategy: key, run, phase, says }) {
    if ((this.runs.get(run)?.status ?? "running") !== "running") return;
    const now = this.activity(key);
    const words =
      now?.phase === "stopping" ? { phase: now.phase, says: now.says } : { phase, says };
    this.act(key, { ...words, run });
  }

  /**
   * End the activity of every key that shows a run.
   * @param {string} id
   * @param {FailMessage | null} stopped the message that the run was stopped before it began
   */
  #endActivity(id, key = "", stopped = null) {
    /** @param {string} k */
    const shownAt = (k) => {
      const run = this.activity(k)?.run;
      return run === id || (k === key && !run);
    };
    for (const at of this.busyKeys().filter(shownAt))
      this.act(at, stopped && { phase: "stopped", says: stopped.error, run: "" });
  }

  /**
   * A run goes on: it was paused, or the progress from before its start came late.
   * @param {string} run
   */
  #endWait(run) {
    for (const strategy of this.busyKeys()) {
      const now = this.activity(strategy);
      if (now?.run === run && IDLE.has(now.phase))
        this.showProgress({ strategy, run, phase: "decoding", says: DECODING_TEXT });
    }
  }

  /** @param {NumberedMessage} message */
  #receiveNumbered(message) {
    if (message.kind === "start") this.#addRun(message);
    if (message.kind === "fail" && !this.runs.has(message.run)) return this.#showRefusal(message);
    const run = this.runs.get(message.run);
    // A page that missed the start message requests the whole run, or it would never show anything.
    if (!run || message.seq > run.next) return this.tell("missed", message.run);
    if (message.seq < run.next) return;
    this.#applyMessage(run, message);
    if (message.kind === "delta") this.#endWait(message.run);
    if (message.kind === "finish" || message.kind === "fail") this.#endActivity(message.run);
    this.tell("changed", run);
  }

  /** @param {StateMessage} message */
  #receiveState({ run: id, messages }) {
    if (messages[0]?.kind === "start") this.#addRun({ ...messages[0], run: id });
    const run = this.runs.get(id);
    if (!messages.length) return this.#markLost(id);
    if (!run) return;
    const { selected, follow } = run;
    Object.assign(run, createEmptyRecord());
    for (const part of messages) {
      addTemplates(part.templates);
      this.#applyMessage(run, part);
    }
    if (!follow) Object.assign(run, { selected, follow });
    if (run.status !== "running") this.#endActivity(id);
    this.tell("restored");
    this.tell("changed", run);
  }

  /**
   * The server no longer has the run.
   * @param {string} id
   */
  #markLost(id) {
    for (const key of this.busyKeys().filter((k) => this.activity(k)?.run === id))
      this.act(key, { phase: "stopped", says: CONNECTION_LOST, run: "" });
  }

  /** @param {StartMessage | FailMessage} message */
  #addRun(message) {
    if (this.runs.has(message.run)) return;
    this.keep(message.strategy ?? "", createRun(message.run, message.seq, "running"));
    if (message.kind === "start")
      this.showProgress({ ...message, phase: "decoding", says: DECODING_TEXT });
  }

  /**
   * Show the error of a request that never started; the earlier run stays on the page.
   * @param {FailMessage} message
   */
  #showRefusal(message) {
    this.#endActivity(message.run, message.strategy, message.stopped ? message : null);
    if (message.stopped) return;
    const key = message.strategy ?? "";
    if (!this.shown(key)) {
      this.#addRun(message);
      Object.assign(this.runs.get(message.run) ?? {}, REFUSED_RUN);
    }
    const run = this.shown(key);
    if (!run) return;
    Object.assign(run, { error: message.error, again: message.again ?? false });
    this.tell("changed", run);
  }

  /**
   * @param {Run} run
   * @param {NumberedMessage} message
   */
  #applyMessage(run, message) {
    run.next = message.seq + 1;
    if ("parting" in message) run.parting = message.parting;
    if (message.kind === "start") this.#applyStart(run, message);
    else if (message.kind === "delta") applyDelta(run, message);
    else if (message.kind === "finish") applyFinish(run, message);
    else if (message.kind === "fail")
      Object.assign(run, { status: "failed", error: message.error });
  }

  /**
   * @param {Run} run
   * @param {StartMessage} message
   */
  #applyStart(run, { header, link, form }) {
    Object.assign(run, header, { link, form });
    run.pieces = { ...header.pieces };
    this.tell("linked", link);
  }
}

/**
 * @param {Run} run
 * @param {DeltaMessage} message
 */
function applyDelta(run, { steps = [], shown = [], pieces = {}, texts = [] }) {
  Object.assign(run.pieces, pieces);
  for (const [i, step] of steps.entries()) addStep(run, step, /** @type {Shown} */ (shown[i]));
  for (const [sequence, keep, text] of texts)
    run.texts[sequence] = (run.texts[sequence] || "").slice(0, keep) + text;
}

/**
 * @param {Run} run
 * @param {FinishMessage} message
 */
function applyFinish(run, { rest: { last, ...rest } }) {
  Object.assign(run, rest);
  if (last) {
    run.steps[last.step.index] = last.step;
    run.shown[last.step.index] = /** @type {Shown} */ (last.shown);
  }
  const stopped = run.outputs.some((o) => o.finish_reason === "cancelled");
  run.status = stopped ? "stopped" : "finished";
  // A visitor who has chosen a step keeps it.
  if (run.follow && run.steps.length) run.selected = findStrikingStep(run);
}

/**
 * Return the step that is worth a look: of the first tokens, the one that surprised the model most.
 * @param {Run} run
 */
function findStrikingStep(run) {
  const first = run.tokens[0]?.slice(0, FIRST_TOKENS) ?? [];
  const known = first.filter(({ id, bits }) => bits !== null && !run.eos_token_ids.includes(id));
  const most = Math.max(...known.map(({ bits }) => bits ?? 0));
  return known.find(({ bits }) => bits === most)?.step ?? 0;
}
