// The widget of a notebook: its frame, what it hands to the page in it, and that page.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { paint } from "./stage.mjs";
import { messagesOf, open as read } from "./traces.mjs";

let listeners = new Set();
const told = [];
Object.assign(globalThis, {
  addEventListener: (name, act) => name === "message" && listeners.add(act),
  removeEventListener: (_, act) => listeners.delete(act),
  parent: { postMessage: (what) => told.push(what) },
});
window.frameElement = null;
const { open } = await import("../../playground/client/notebook/live_page.mjs");
const { isDarkAround } = await import("../../visualizers/stage/page_frame.mjs");
const { default: widget } = await import("../../playground/client/notebook/widget.mjs");

const TRACE = await read("sampling-1");
const say = (source, data) => {
  for (const act of [...listeners]) act({ source, data });
};

function createModel(values = {}) {
  const model = {
    values: { name: "n", page: "<p>", height: "1px", refusal: "", count: 0, ...values },
    acts: new Map(),
    sent: [],
    get: (name) => model.values[name] ?? [],
    on: (event, act) => model.acts.set(event, act),
    off: (event) => model.acts.delete(event),
    send: (content) => model.sent.push(content),
    set(changed) {
      Object.assign(model.values, changed);
      for (const name of Object.keys(changed)) model.acts.get(`change:${name}`)?.();
    },
  };
  return model;
}

function show(model) {
  const el = document.createElement("div");
  const close = widget.render({ model, el });
  const frame = el.querySelector("iframe");
  const got = [];
  const page = { postMessage: (data) => got.push(data) };
  Object.defineProperty(frame, "contentWindow", { value: page });
  return { el, close, got, page };
}

test("a view hands every message to its page once, however late it comes", () => {
  const model = createModel({ newest: ["a", "b"], count: 2 });
  const view = show(model);
  assert.deepEqual(view.got, []);
  say(view.page, { ready: true });
  model.set({ oldest: ["a", "b"], newest: ["c"], count: 3 });
  assert.deepEqual(view.got, [
    { texts: ["a", "b"], selected: null },
    { texts: ["c"], selected: null },
  ]);
  const late = show(model);
  say(late.page, { ready: true });
  assert.deepEqual(late.got, [{ texts: ["a", "b", "c"], selected: null }]);
  assert.equal(view.got.length, 2);
  view.close();
  late.close();
});

test("a view waits until all values of an update are set, in whatever order they come", () => {
  const changed = { newest: ["c"], newer: ["a", "b"], count: 3 };
  const orders = [
    ["newest", "newer", "count"],
    ["newer", "count", "newest"],
    ["count", "newest", "newer"],
  ];
  for (const names of orders) {
    const model = createModel({ newest: ["a", "b"], count: 2 });
    const view = show(model);
    say(view.page, { ready: true });
    for (const name of names) model.set({ [name]: changed[name] });
    assert.deepEqual(
      view.got.map(({ texts }) => texts),
      [["a", "b"], ["c"]],
      String(names),
    );
    view.close();
  }
});

test("a page that begins again gets everything, and the chosen step", () => {
  const model = createModel({ newest: ["a"], count: 1 });
  const view = show(model);
  say(view.page, { ready: true });
  say(view.page, { selected: 4 });
  say(view.page, { ready: true });
  assert.deepEqual(view.got.at(-1), { texts: ["a"], selected: 4 });
  assert.deepEqual(model.sent, [{ selected: 4 }]);
  view.close();
});

test("a view passes on what its own page says, and nobody else", () => {
  const [one, other] = [createModel(), createModel()];
  const [mine, theirs] = [show(one), show(other)];
  say(mine.page, { stop: true });
  say({}, { stop: true });
  assert.deepEqual([one.sent, other.sent], [[{ stop: true }], []]);
  mine.close();
  theirs.close();
});

test("a run is left when its last view is gone for a while", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const model = createModel();
  const [first, second] = [show(model), show(model)];
  first.close();
  mock.timers.tick(5000);
  assert.deepEqual(model.sent, []);
  second.close();
  const moved = show(model);
  mock.timers.tick(5000);
  assert.deepEqual(model.sent, []);
  moved.close();
  mock.timers.tick(5000);
  assert.deepEqual(model.sent, [{ left: true }]);
  assert.equal(listeners.size, 0);
  mock.timers.reset();
});

test("a refused run is a sentence in place of the frame", () => {
  const model = createModel();
  const view = show(model);
  model.set({ refusal: "temperature = -8 is not allowed." });
  assert.equal(view.el.textContent, "temperature = -8 is not allowed.");
  assert.equal(view.el.querySelector("p").getAttribute("role"), "alert");
  assert.equal(view.el.querySelector("iframe"), null);
  view.close();
});

async function openPage() {
  listeners = new Set();
  told.length = 0;
  document.body.innerHTML = `<div class="dp-head"><h1></h1><p></p></div><div class="dp-stage"></div>
    <script type="application/json" id="terms">{}</script>
    <script type="application/json" id="filters">{}</script>`;
  open({ name: "sampling, seed 3", strategy: "sampling", visuals: ["status", "strip"] });
  await paint();
}
const receive = async (messages, selected = null) => {
  say(parent, { texts: messages.map((one) => JSON.stringify(one)), selected });
  await paint();
};
const tokens = () => document.querySelectorAll(".dp-tok[data-step]").length;
const status = () => document.querySelector(".dp-status").textContent;
const button = (name) =>
  [...document.querySelectorAll("button")].find((node) => node.textContent === name);

test("the page draws a run while it decodes, and then plays it", async () => {
  const { kind: _, ...about } = { run: "a", strategy: "sampling" };
  const messages = messagesOf(TRACE);
  await openPage();
  assert.deepEqual(told, [{ ready: true }]);
  await receive([{ kind: "progress", phase: "starting", says: "Starting…", ...about }]);
  assert.equal(status(), "Starting…");
  await receive(messages.slice(0, 6));
  assert.equal(status(), "Decoding…");
  assert.equal(tokens(), 5);
  button("Stop").click();
  assert.deepEqual(told.at(-1), { stop: true });
  await receive(messages.slice(6));
  assert.equal(tokens(), TRACE.outputs[0].token_ids.length);
  assert.equal(button("Stop"), undefined);
  document.querySelector('[aria-label="To the start"]').click();
  await paint();
  assert.equal(tokens(), 0);
  document.querySelector('[aria-label="To the end"]').click();
  await paint();
  assert.equal(tokens(), TRACE.outputs[0].token_ids.length);
});

test("the page tells which step was chosen, and shows one that it is given", async () => {
  const messages = messagesOf(TRACE);
  await openPage();
  await receive(messages.slice(0, 8));
  document.querySelectorAll(".dp-tok[data-step]")[2].click();
  assert.deepEqual(told.at(-1), { selected: 2 });
  await openPage();
  await receive(messages.slice(0, 8), 3);
  assert.deepEqual(told.at(-1), { selected: 3 });
  await receive(messages.slice(8));
  assert.deepEqual(told.at(-1), { selected: 3 });
});

test("the page says why a run failed, and listens to its notebook alone", async () => {
  const messages = messagesOf(TRACE);
  await openPage();
  await receive(messages.slice(0, 4));
  say({}, { texts: [JSON.stringify(messages[4])], selected: null });
  await paint();
  assert.equal(tokens(), 3);
  await receive([{ kind: "fail", run: "a", seq: 4, strategy: "sampling", error: "No more." }]);
  assert.equal(status(), "No more.");
  assert.equal(tokens(), 3);
});

test("a page is dark where light text is written around its frame", () => {
  const { getComputedStyle, matchMedia } = globalThis;
  const { createElement } = document;
  const around = {};
  // The browser's own reading of a colour.
  const bytes = { "color(srgb 0.9 0.9 0.9)": [230, 230, 230], "rgb(15, 23, 42)": [15, 23, 42] };
  const brush = {
    fillRect() {},
    getImageData: () => ({ data: [...bytes[brush.fillStyle], 255] }),
  };
  globalThis.getComputedStyle = (node) => ({ color: node === around && around.color });
  globalThis.matchMedia = () => ({ matches: true });
  document.createElement = () => ({ getContext: () => brush });
  around.color = "color(srgb 0.9 0.9 0.9)";
  assert.ok(isDarkAround({ parentElement: around }));
  around.color = "rgb(15, 23, 42)";
  assert.ok(!isDarkAround({ parentElement: around }));
  assert.ok(isDarkAround(null), "what the system wants, where nothing can be seen");
  Object.assign(globalThis, { getComputedStyle, matchMedia });
  document.createElement = createElement;
});
