// The store: numbered messages, gaps, what was missed, recorded runs, and who is told.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Store } from "../../playground/client/shell/store.mjs";
import { isRefusedRun, toTrace as traceOf } from "../../visualizers/shared/record.mjs";
import { messagesOf, open, recorded } from "./traces.mjs";

const TRACE = await open("greedy-1");
const KEY = TRACE.strategy;

let store;
let told;
const send = (...messages) => {
  for (const message of messages) store.receive(JSON.stringify(message));
};

beforeEach(() => {
  store = new Store();
  told = { changed: [], missed: [], restored: 0, linked: [] };
  store.watch({
    changed: (run) => told.changed.push(run.steps.length),
    missed: (id) => told.missed.push(id),
    restored: () => told.restored++,
    linked: (link) => told.linked.push(link),
  });
});

test("takes messages in their order, follows the newest step and keeps the link", () => {
  const messages = messagesOf(TRACE);
  send(...messages.slice(0, 4));
  const run = store.shown(KEY);
  assert.deepEqual(told.changed, [0, 1, 2, 3]);
  assert.deepEqual([run.status, run.selected, run.next], ["running", 2, 4]);
  assert.deepEqual(run.shown, recorded(TRACE).shown.slice(0, 3));
  assert.deepEqual(told.linked, ["/?strategy=x"]);
  send(...messages.slice(4));
  assert.equal(run.status, "finished");
  assert.deepEqual(
    run.tokens[0].map((t) => t.id),
    TRACE.outputs[0].token_ids,
  );
  assert.deepEqual(traceOf(run), TRACE);
});

test("a run ends at the early token that surprised the model most, unless another was chosen", () => {
  const messages = messagesOf(TRACE);
  send(...messages);
  const run = store.shown(KEY);
  const bits = run.tokens[0].slice(0, 30).map((token) => token.bits);
  assert.equal(run.tokens[0][run.selected].bits, Math.max(...bits));
  store = new Store();
  send(...messages.slice(0, -1));
  store.select(store.shown(KEY), 2);
  send(messages.at(-1));
  assert.equal(store.shown(KEY).selected, 2);
});

test("takes the last step once more, with what was measured beside it", () => {
  const messages = messagesOf(TRACE);
  const step = { ...TRACE.steps.at(-1), entropy: 7 };
  const { rest } = messages.at(-1);
  const shown = { ...recorded(TRACE).shown.at(-1), beside: 1 };
  send(...messages.slice(0, -1), { ...messages.at(-1), rest: { ...rest, last: { step, shown } } });
  const run = store.shown(KEY);
  assert.deepEqual([run.steps.at(-1), run.shown.at(-1)], [step, shown]);
  assert.deepEqual(traceOf(run), { ...TRACE, steps: [...TRACE.steps.slice(0, -1), step] });
});

test("leaves alone what comes twice", () => {
  const messages = messagesOf(TRACE);
  send(...messages.slice(0, 3), messages[1], messages[2], messages[0]);
  assert.equal(store.shown(KEY).steps.length, 2);
  assert.deepEqual(told.changed, [0, 1, 2]);
  assert.deepEqual(told.missed, []);
});

test("asks for the whole after a gap, and goes on from it", () => {
  const messages = messagesOf(TRACE);
  send(...messages.slice(0, 2), messages[5]);
  assert.deepEqual(told.missed, ["a"]);
  assert.equal(store.shown(KEY).steps.length, 1, "nothing is taken out of its order");
  send({ kind: "state", run: "a", messages: messages.slice(0, 7) }, messages[6], messages[7]);
  assert.equal(told.restored, 1);
  assert.equal(store.shown(KEY).steps.length, 7);
  send(...messages.slice(8));
  assert.deepEqual(traceOf(store.shown(KEY)), TRACE);
});

test("asks for a run whose beginning it missed, and is silent on an unknown one", () => {
  const messages = messagesOf(TRACE);
  send(messages[3]);
  assert.deepEqual([told.missed, store.runs.size], [["a"], 0]);
  send({ kind: "state", run: "a", messages: messages.slice(0, 4) });
  assert.equal(store.shown(KEY).steps.length, 3);
  send({ kind: "state", run: "gone", messages: [] });
  assert.deepEqual([told.missed, store.runs.size], [["a"], 1]);
});

test("keeps what the reader looks at when the whole comes again", () => {
  const messages = messagesOf(TRACE);
  send(...messages);
  store.select(store.shown(KEY), 3);
  send({ kind: "state", run: "a", messages });
  const run = store.shown(KEY);
  assert.deepEqual([run.selected, run.follow, run.status], [3, false, "finished"]);
});

test("says of a failure and of a refusal why, and keeps what was drawn", () => {
  const messages = messagesOf(TRACE);
  send(...messages.slice(0, 3), {
    kind: "fail",
    run: "a",
    seq: 3,
    strategy: KEY,
    error: "Lost.",
  });
  const run = store.shown(KEY);
  assert.deepEqual([run.status, run.error, run.steps.length], ["failed", "Lost.", 2]);
  send({ kind: "fail", run: "b", seq: 0, strategy: KEY, error: "Not like this." });
  assert.equal(store.shown(KEY), run);
  assert.equal(run.error, "Not like this.");
  send({ kind: "fail", run: "c", seq: 0, strategy: "other", error: "Nor this." });
  assert.deepEqual([store.shown("other").status, store.shown("other").steps], ["failed", []]);
  assert.equal(isRefusedRun(store.shown("other")), true);
  assert.equal(isRefusedRun(run), false);
});

test("tells a run that was stopped from one that ended", () => {
  const messages = messagesOf(TRACE);
  const finish = structuredClone(messages.at(-1));
  finish.rest.outputs[0].finish_reason = "cancelled";
  send(...messages.slice(0, -1), finish);
  assert.equal(store.shown(KEY).status, "stopped");
});

test("changes texts where they part from what was there", () => {
  const [start] = messagesOf(TRACE);
  const delta = (seq, ...texts) => ({
    kind: "delta",
    run: "a",
    seq,
    steps: [],
    shown: [],
    pieces: {},
    texts,
  });
  send(start, delta(1, [0, 0, "a pond"], [1, 0, "two"]), delta(2, [0, 2, "bird"]));
  assert.deepEqual(store.shown(KEY).texts, ["a bird", "two"]);
});

test("selects within the run and follows again at its end", () => {
  send(...messagesOf(TRACE).slice(0, 6));
  const run = store.shown(KEY);
  store.select(run, -3);
  assert.deepEqual([run.selected, run.follow], [0, false]);
  store.select(run, 1e9);
  assert.deepEqual([run.selected, run.follow], [4, true]);
  store.select(undefined, 1);
});

test("forgets the oldest runs", () => {
  const [start] = messagesOf(TRACE);
  for (let i = 0; i < 50; i++) send({ ...start, run: `run-${i}` });
  assert.equal(store.runs.size, 44);
  assert.ok(!store.runs.has("run-5") && store.runs.has("run-6"));
  assert.equal(store.runId(KEY), "run-49");
});

test("shows a recorded run as far as a player has come", () => {
  const run = store.showTrace("replay", recorded(TRACE), "replayed");
  assert.deepEqual([run.status, run.steps.length], ["replayed", TRACE.steps.length]);
  assert.deepEqual(traceOf(run), TRACE);
  store.rewind(run, 5, "replayed");
  assert.deepEqual([run.status, run.steps.length, run.selected], ["paused", 5, 4]);
  assert.deepEqual(run.shown.at(-1), recorded(TRACE).shown[4]);
  assert.deepEqual([run.outputs, run.timing], [[], undefined]);
  store.rewind(run, TRACE.steps.length, "replayed");
  assert.deepEqual(traceOf(run), TRACE);
  store.show("elsewhere", run);
  assert.equal(store.shown("elsewhere"), run);
});

const goesOn = (phase, says, run = "a") => ({ kind: "progress", run, strategy: KEY, phase, says });
const phaseOf = () => store.activity(KEY)?.phase ?? "";

test("knows what goes on from the first word to the end, and what was drawn before stays", () => {
  const [start, ...rest] = messagesOf(TRACE);
  store.showTrace(KEY, recorded(TRACE), "recorded");
  const before = store.shown(KEY);
  assert.equal(store.busy(KEY), false);
  send(goesOn("waiting", "Waiting: 2 runs before yours, about 14 s"));
  assert.equal(store.activity(KEY).says, "Waiting: 2 runs before yours, about 14 s");
  assert.equal(store.activity(KEY).run, "a");
  assert.equal(store.shown(KEY), before);
  send(goesOn("loading", "Loading Storyteller…"), start);
  assert.equal(phaseOf(), "decoding");
  assert.notEqual(store.shown(KEY), before);
  send(...rest.slice(0, -1), goesOn("checking", "Checking 37 of 200: runs"));
  assert.deepEqual([phaseOf(), store.busyKeys()], ["checking", [KEY]]);
  send(rest.at(-1));
  assert.deepEqual([phaseOf(), store.busyKeys()], ["", []]);
});

test("progress that comes after the end of its run is not shown", () => {
  send(...messagesOf(TRACE));
  assert.equal(store.busy(KEY), false);
  send(goesOn("waiting", "Waiting: 1 run before yours"));
  assert.equal(store.activity(KEY), undefined);
  send(goesOn("waiting", "Waiting: 1 run before yours", "b"));
  assert.equal(phaseOf(), "waiting");
});

test("a paused run says so until its next step", () => {
  const [start, step, ...rest] = messagesOf(TRACE);
  send(start, step);
  send(goesOn("paused", "Paused while another visitor has a turn. Yours goes on soon…"));
  assert.equal(phaseOf(), "paused");
  send(rest[0]);
  assert.equal(phaseOf(), "decoding");
  assert.equal(store.activity(KEY).says, "Decoding…");
});

test("late progress from before the start of a run goes with its next step", () => {
  const [start, step, ...rest] = messagesOf(TRACE);
  send(start, step);
  for (const [at, phase] of ["starting", "waiting", "loading"].entries()) {
    send(goesOn(phase, "Late"), rest[at]);
    assert.deepEqual([phaseOf(), store.activity(KEY).says], ["decoding", "Decoding…"]);
  }
});

test("a run that was stopped before it began leaves what was drawn, and is no error", () => {
  store.showTrace(KEY, recorded(TRACE), "recorded");
  send(goesOn("waiting", "Waiting: 1 run before yours"));
  const fail = { kind: "fail", run: "a", seq: 0, strategy: KEY, error: "Stopped.", stopped: true };
  send(fail);
  assert.deepEqual(store.activity(KEY), { phase: "stopped", says: "Stopped.", run: "" });
  assert.deepEqual([store.busy(KEY), store.shown(KEY).error], [false, ""]);
});

test("a refusal ends what was asked for, and the next request is no error any more", () => {
  store.showTrace(KEY, recorded(TRACE), "recorded");
  store.act(KEY, { phase: "asked", says: "Starting…", run: "" });
  send({ kind: "fail", run: "b", seq: 0, strategy: KEY, error: "top_k = -1 is not allowed." });
  assert.deepEqual(
    [store.busy(KEY), store.shown(KEY).error],
    [false, "top_k = -1 is not allowed."],
  );
  store.noteRequest(KEY);
  assert.equal(store.shown(KEY).error, "");
});

test("another run's end ends nothing here", () => {
  send(goesOn("waiting", "Waiting", "mine"), ...messagesOf(TRACE).slice(0, 1));
  send(goesOn("waiting", "Waiting", "mine"));
  send({ ...messagesOf(TRACE).at(-1), seq: 1 });
  assert.equal(store.activity(KEY).run, "mine");
});

test("a run that is being stopped says so until its end", () => {
  store.act(KEY, { phase: "stopping", says: "Stopping…", run: "" });
  send(goesOn("waiting", "Waiting: 1 run before yours"), goesOn("waiting", "Waiting"));
  const { phase, says, run } = store.activity(KEY);
  assert.deepEqual([phase, says, run], ["stopping", "Stopping…", "a"]);
});

test("what was missed ends what went on as well", () => {
  const messages = messagesOf(TRACE);
  send(messages[0]);
  assert.equal(phaseOf(), "decoding");
  send({ kind: "state", run: "a", messages });
  assert.equal(phaseOf(), "");
});
