// What a press of Run sends, and when it sends nothing.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./page.mjs";
import { requestRun } from "../../playground/client/runs/press.mjs";
import { store } from "../../playground/client/shell/page_state.mjs";

const settled = () => new Promise(setImmediate);

test("a second press sends nothing while the first goes on", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  t.mock.method(globalThis, "fetch", async () => ({}));
  document.baseURI = "http://127.0.0.1/";
  const sent = [];
  const run = () => requestRun("greedy", ({ press: name }) => sent.push(name));
  run();
  run();
  await settled();
  run();
  await settled();
  assert.equal(sent.length, 1);
  store.act("greedy", null);
  run();
  await settled();
  assert.equal(new Set(sent).size, 2);
  store.act("greedy", null);
});
