// What the store is given here and what it reads are what the schema of the messages says.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import Ajv from "ajv/dist/2020.js";
import { Store } from "../../playground/client/shell/store.mjs";
import { messagesOf, names, numbers, open } from "./traces.mjs";
import { ROOT, readJson, readSchema, TYPES, typesOf, VIEW_INDEX, viewIndex } from "./types.mjs";

const ajv = new Ajv({ strict: false, validateFormats: false });
// The validator knows the other schemas by names, not by paths.
const NAMES = {
  "docs/trace.schema.json": "trace.json",
  "visualizers/summaries.schema.json": "summaries.json",
};
let text = JSON.stringify(await readJson("playground/messages.schema.json"));
for (const [path, name] of Object.entries(NAMES)) {
  text = text.replaceAll(`../${path}`, name);
  ajv.addSchema({ ...(await readSchema(path)), $id: name });
}
const schema = JSON.parse(text);
const isMessage = ajv.compile(schema);

for (const [from, to] of Object.entries(TYPES))
  test(`the types in ${to} are those of ${from}`, async () => {
    const written = await readFile(new URL(to, ROOT), "utf8");
    assert.equal(written, await typesOf(from), "run `npm run types`");
  });

test("the index has the views of all folders", async () => {
  const written = await readFile(new URL(VIEW_INDEX, ROOT), "utf8");
  assert.equal(written, await viewIndex(), "run `npm run types`");
});

for (const name of names)
  test(`the messages of ${name} are of the schema and give the trace back`, async () => {
    const trace = await open(name);
    const store = new Store();
    for (const message of messagesOf(trace)) {
      assert.ok(isMessage(message), ajv.errorsText(isMessage.errors));
      store.receive(JSON.stringify(message));
    }
    const run = store.shown(trace.strategy);
    assert.equal(run.status, "finished");
    for (const field of run.fields) assert.deepEqual(run[field], trace[field], field);
  });

test("the summaries of every recorded run are of their schema", async () => {
  const isSummary = ajv.getSchema("summaries.json");
  const views = new Set();
  for (const name of names)
    for (const summary of numbers[name].shown) {
      assert.ok(isSummary(summary), `${name}: ${ajv.errorsText(isSummary.errors)}`);
      for (const view of Object.keys(summary)) views.add(view);
    }
  // No run that is recorded here was decoded by a server.
  views.add("served");
  assert.deepEqual([...views].sort(), Object.keys(isSummary.schema.properties).sort());
});

test("a message that the schema does not know is none", async () => {
  const [start] = messagesOf(await open("greedy-1"));
  assert.ok(!isMessage({ ...start, kind: "begin" }));
  assert.ok(!isMessage({ ...start, more: 1 }));
  assert.ok(!isMessage({ ...start, seq: -1 }));
});

test("every kind of message changes what the store holds", async () => {
  const kinds = Object.values(schema.$defs)
    .map((definition) => definition.properties?.kind?.const)
    .filter(Boolean);
  const [start, delta] = messagesOf(await open("greedy-1"));
  const finish = messagesOf(await open("greedy-1")).at(-1);
  const fail = { kind: "fail", run: "a", seq: 1, error: "Out of memory." };
  const state = { kind: "state", run: "a", messages: [start, delta] };
  const after = { start: [], delta: [start], finish: [start], fail: [start], state: [start] };
  const about = { run: "a", strategy: start.strategy };
  const progress = { kind: "progress", ...about, phase: "waiting", says: "Waiting" };
  after.progress = [];
  const given = { start, delta, finish: { ...finish, seq: 1 }, fail, progress, state };
  const held = (store) => JSON.stringify([[...store.runs], store.activity(start.strategy)]);
  assert.deepEqual(Object.keys(given).sort(), kinds.sort());
  for (const kind of kinds) {
    const store = new Store();
    for (const earlier of after[kind]) store.receive(JSON.stringify(earlier));
    const before = held(store);
    assert.ok(isMessage(given[kind]), ajv.errorsText(isMessage.errors));
    store.receive(JSON.stringify(given[kind]));
    assert.notEqual(held(store), before, kind);
  }
});
