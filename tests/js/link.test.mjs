// What a link does by itself, and what only who has read it does.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./page.mjs";
import { openAddress } from "../../playground/client/runs/links.mjs";
import { registerOtherTab } from "../../playground/client/shell/other_tabs.mjs";
import { store } from "../../playground/client/shell/page_state.mjs";
import { connectQuestions } from "../../playground/client/shell/questions.mjs";
import { setDeclaration } from "../../playground/client/shell/spec.mjs";
import { registerStrategyTab } from "../../playground/client/shell/strategy_tabs.mjs";
import { messagesOf, open, recorded } from "./traces.mjs";

setDeclaration({
  params: [],
  strategies: [{ name: "greedy", params: [] }],
  models: [
    { name: "own", embedded: true },
    { name: "someone/offered", embedded: false },
  ],
});

// Whether a link's form is run, and what is said instead.
async function opened(form) {
  const told = [];
  registerOtherTab("compare", {
    restore: (_, itself) => told.push(itself),
    refuse: (error) => told.push(error),
  });
  const { receive } = connectQuestions(({ id }) =>
    receive(JSON.stringify({ id, tab: "compare", form })),
  );
  await openAddress("?tab=compare&form={}");
  return told;
}

test("a link that names models of the page is run by itself", async () => {
  const columns = [
    { model: "own", assistant: "" },
    { model: "own", assistant: "own" },
  ];
  assert.deepEqual(await opened({ base: "own", columns }), [true]);
});

test("a link that names another model is not run by itself", async () => {
  for (const form of [
    { model: "someone/else" },
    { model: "own", assistant: "someone/else" },
    { base: "someone/else", columns: [{ model: "own" }] },
    { base: "own", columns: [{ model: "own" }, { model: "someone/offered" }] },
    { base: "own", columns: [{ model: "own", assistant: "/a/folder" }] },
  ]) {
    const [itself, said] = await opened(form);
    assert.equal(itself, false);
    assert.match(
      said,
      /^This link asks for (someone\/(else|offered)|\/a\/folder), .* then press Run\.$/,
    );
  }
});

// What a tab shows after a link has asked it for a run at a step: the run it opens with arrives
// before the one that was asked for.
async function shownAtStep(step) {
  const trace = await open("greedy-1");
  registerStrategyTab("greedy", {
    strategy: { name: "greedy", presets: [] },
    cameBack: Promise.resolve(),
    welcomed: Promise.resolve(),
    shows: () => false,
    show() {},
    run() {},
  });
  const { receive } = connectQuestions(({ id }) =>
    receive(JSON.stringify({ id, tab: "greedy", form: { model: "own" }, step })),
  );
  await openAddress(`?strategy=greedy&step=${step}`);
  await new Promise(setImmediate);
  store.showTrace("greedy", recorded(trace), "recorded");
  const all = messagesOf(trace, `asked-${step}`);
  for (const [seq, message] of [...all.slice(0, 7), all.at(-1)].entries())
    store.receive(JSON.stringify({ ...message, seq }));
  await new Promise(setImmediate);
  return store.shown("greedy");
}

test("a link's step is chosen in the run it asks for, not in the one the tab opens with", async () => {
  const run = await shownAtStep(3);
  assert.deepEqual([run.id, run.selected, run.error], ["asked-3", 2, ""]);
});

test("a link's step beyond the end of its run is named", async () => {
  const run = await shownAtStep(9);
  assert.equal(run.id, "asked-9");
  assert.equal(
    run.error,
    "This link cannot be opened, because step = 9 is not one of the run's steps 1 to 6.",
  );
});

test("the address of a lesson opens it, without the name of its tab", async () => {
  const restored = [];
  registerOtherTab("lessons", { restore: (found) => restored.push(found.lesson) });
  const { receive } = connectQuestions(({ id, search }) =>
    receive(JSON.stringify({ id, tab: "lessons", lesson: search.slice(8) })),
  );
  await openAddress("?lesson=temperature");
  assert.deepEqual(restored, ["temperature"]);
});

// What a tab shows after a link to the recording that the tab has opened by itself.
async function shownRecording(step, selected) {
  const run = store.showTrace("greedy", recorded(await open("greedy-1")), "recorded");
  Object.assign(run, { entry: "greedy-1", look_at: 2 });
  store.select(run, selected);
  registerStrategyTab("greedy", {
    strategy: { name: "greedy", presets: [] },
    cameBack: Promise.resolve(),
    open: () => assert.fail("opened twice"),
  });
  const { receive } = connectQuestions(({ id }) =>
    receive(JSON.stringify({ id, tab: "greedy", recorded: "greedy-1", step })),
  );
  await openAddress("?trace=greedy-1");
  await new Promise(setImmediate);
  assert.equal(store.shown("greedy"), run);
  return run.selected;
}

test("a link to the recording that the tab shows only selects its step", async () => {
  assert.equal(await shownRecording(4, 1), 3);
});

test("a step that the visitor has selected meanwhile stays selected", async () => {
  assert.equal(await shownRecording(4, 5), 5);
});
