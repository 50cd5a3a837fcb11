// Work on the server: what begins, stops and shows it, and when nothing is sent.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./page.mjs";
import { beginJob, receiveProgress, stopJob } from "../../playground/client/jobs/job.mjs";
import { StoppableQuestion } from "../../playground/client/jobs/question.mjs";
import { store } from "../../playground/client/shell/page_state.mjs";
import { connectQuestions } from "../../playground/client/shell/questions.mjs";

const settled = () => new Promise(setImmediate);
const asked = [];
connectQuestions((question) => asked.push(question));

/** Begin jobs on a page that reaches its server; returns what was sent. */
function connected(t) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  t.mock.method(globalThis, "fetch", async () => ({}));
  document.baseURI = "http://127.0.0.1/";
  const sent = [];
  return { sent, begin: (key) => beginJob(key, ({ press }) => sent.push(press)) };
}

test("a second press sends nothing while the first goes on", async (t) => {
  const { sent, begin } = connected(t);
  begin("greedy");
  begin("greedy");
  await settled();
  begin("greedy");
  await settled();
  assert.equal(sent.length, 1);
  store.act("greedy", null);
  begin("greedy");
  await settled();
  assert.equal(new Set(sent).size, 2);
  store.act("greedy", null);
});

test("a stop names the press, before anything has come of it", async (t) => {
  const { sent, begin } = connected(t);
  begin("draws");
  await settled();
  stopJob("draws");
  const { action, press } = asked.at(-1);
  assert.deepEqual([action, press], ["stop", sent[0]]);
  assert.equal(store.activity("draws").phase, "stopping");
  receiveProgress("draws", { phase: "decoding", says: "Decoding…" });
  assert.equal(store.activity("draws").phase, "stopping");
  receiveProgress("draws", { error: "Stopped.", stopped: true });
  assert.deepEqual([store.busy("draws"), store.activity("draws").says], [false, "Stopped."]);
});

test("a job without a run goes on under its press and ends without a phase", async (t) => {
  const { sent, begin } = connected(t);
  begin("taste");
  await settled();
  receiveProgress("taste", { phase: "decoding", says: "Decoding…" });
  assert.deepEqual([store.busy("taste"), store.activity("taste").run], [true, sent[0]]);
  receiveProgress("taste", {});
  assert.equal(store.activity("taste"), undefined);
  // Another connection may be slower than the one that brought the end.
  receiveProgress("taste", { phase: "decoding", says: "Decoding…" });
  assert.equal(store.busy("taste"), false);
  begin("taste");
  await settled();
  receiveProgress("taste", { phase: "decoding", says: "Decoding…" });
  assert.equal(store.busy("taste"), true);
});

test("a question has the answer of its newest form alone, and is stopped by its id", async () => {
  const question = new StoppableQuestion();
  const answers = [];
  const ask = () => question.ask((press) => new Promise((done) => answers.push({ press, done })));
  const [first, second] = [ask(), ask()];
  assert.notEqual(answers[0].press, answers[1].press);
  question.stop();
  assert.equal(asked.at(-1).press, answers[1].press);
  for (const { press, done } of answers) done({ press });
  assert.deepEqual(await Promise.all([first, second]), [null, { press: answers[1].press }]);
  assert.equal(question.isOpen, false);
  const count = asked.length;
  question.stop();
  assert.equal(asked.length, count);
  const dropped = ask();
  question.forget();
  answers.at(-1).done({});
  assert.equal(await dropped, null);
});

test("a part of the page keeps its id when the server replaces its questions", async () => {
  const question = new StoppableQuestion({ latestOnly: true });
  const presses = [];
  const answer = (told) => (press) => presses.push(press) && Promise.resolve(told);
  assert.equal(await question.ask(answer({ superseded: true })), null);
  assert.deepEqual(await question.ask(answer({ told: 1 })), { told: 1 });
  assert.equal(presses[0], presses[1]);
});
