// A step under settings that were not run: how the stage passes it to the views.
import assert from "node:assert/strict";
import { test } from "node:test";
import { connectQuestions } from "../../playground/client/shell/questions.mjs";
import { paint } from "./stage.mjs";
import { open, recorded } from "./traces.mjs";

const { Stages } = await import("../../visualizers/stage/stage.mjs");
const { Recordings } = await import("../../visualizers/stage/recordings.mjs");

const { store, stages } = await import("../../playground/client/shell/page_state.mjs");
const { decideStep } = await import("../../playground/client/inspect/decide_step.mjs");
const { readStepScores } = await import("../../playground/client/inspect/step_scores.mjs");
const { changedParameters, DialPreview, previewFromAnswer, settingText } = await import(
  "../../playground/client/inspect/dial_preview.mjs"
);

const PREVIEW = {
  ...{ step: 3, rows: [], rest_own: 1, rest_used: 1, chosen: null, needle: null },
  ...{ setting: "0.42", first: null, stale: false },
};

async function mounted() {
  const root = document.createElement("div");
  document.body.replaceChildren(root);
  const runs = new Recordings();
  const stages = new Stages(runs);
  const seen = [];
  let context;
  const mount = (_root, ctx) => {
    context = ctx;
    return { update: () => seen.push(ctx.preview), select() {}, clear() {} };
  };
  stages.register({ only: { title: "Only", mount } });
  stages.mount(root, { strategy: "x", visuals: ["only"] }, () => {});
  runs.showTrace("x", recorded(await open("sampling-1")), "replayed");
  return { stages, seen, cover: (f) => context.cover(f), context };
}

test("views see a preview at once, and its end", async () => {
  const { stages, seen } = await mounted();
  stages.setPreview("x", PREVIEW);
  stages.setPreview("other", null);
  stages.setPreview("x", null);
  stages.setPreview("x", null);
  assert.deepEqual(seen, [PREVIEW, null]);
});

test("a stage that hides steps shows no preview", async () => {
  const { stages, cover, context } = await mounted();
  stages.setPreview("x", PREVIEW);
  cover((run) => run);
  assert.equal(context.preview, null);
  stages.setPreview("x", PREVIEW);
  assert.equal(context.preview, null);
});

const A = 5;
const B = 9;
const encode = (floats) => Buffer.from(Float32Array.from(floats).buffer).toString("base64");
const arrays = (size, rest, some) => encode(Object.assign(Array(size).fill(rest), some));

// The seed favours A; B has the higher score, and wins once the temperature is low enough.
const SCORES = {
  scores: arrays(64, -5, { [A]: 4.9, [B]: 5 }),
  logits: null,
  noise: arrays(64, 1, { [A]: 0.9, [B]: 1 }),
  removed: {},
  pieces: Object.fromEntries(Array.from({ length: 64 }, (_, id) => [id, `t${id}`])),
};

test("a step is decided from its scores and its noise", () => {
  const step = readStepScores(SCORES);
  const warm = decideStep(step, { temperature: 1 }, A);
  assert.equal(warm.chosen, A);
  assert.equal(warm.rows[0].token_id, B);
  assert.ok(warm.rows.every((row) => Math.abs(row.own - row.used) < 1e-9));
  const cold = decideStep(step, { temperature: 0.5, top_k: "", min_p: null }, A);
  assert.equal(cold.chosen, B);
  assert.ok(cold.rows[0].used > warm.rows[0].used);
  const own = 1 / (1 + Math.exp(-0.2) + 62 * Math.exp(-20));
  assert.ok(Math.abs(cold.rows[0].used - own) < 1e-6);
  assert.ok(Math.abs(cold.needle - (1 - Math.exp(-1 / own))) < 1e-6);
  const cut = decideStep(step, { top_k: 1 }, A);
  assert.deepEqual(
    cut.rows.filter(({ removed }) => removed).map(({ token_id, removed }) => [token_id, removed]),
    [[A, "TopK"]].concat(cut.rows.slice(2).map(({ token_id }) => [token_id, "TopK"])),
  );
  assert.ok(Math.abs(cut.rest_used) < 1e-9 && cut.chosen === B);
});

test("the page does not decide at an edge, with a wrong value, or without a token's text", () => {
  const step = readStepScores(SCORES);
  assert.equal(decideStep(step, { temperature: 0 }, A), null);
  assert.equal(decideStep(step, { top_p: "many" }, A), null);
  const { used } = decideStep(step, {}, A).rows[0];
  assert.equal(decideStep(step, { top_p: used + 1e-8 }, A), null);
  assert.equal(decideStep(step, { top_p: used + 1e-4 }, A).chosen, A);
  const even = { ...SCORES, noise: arrays(64, 1, { [A]: 0.9, [B]: 0.9 * Math.exp(0.1) }) };
  assert.equal(decideStep(readStepScores(even), {}, A), null);
  assert.equal(decideStep(readStepScores({ ...SCORES, pieces: {} }), {}, A), null);
  assert.equal(readStepScores({ scores: null }), null);
});

test("without the run's noise the draw is unknown", () => {
  const { chosen, needle } = decideStep(readStepScores({ ...SCORES, noise: null }), {}, A);
  assert.deepEqual([chosen, needle], [null, null]);
});

const STRATEGY = {
  name: "x",
  dials: ["temperature", "num_beams"],
  params: [
    { name: "temperature", label: "Temperature" },
    { name: "repetition_penalty", label: "Repetition penalty" },
    { name: "num_beams", label: "Beams" },
    { name: "max_new_tokens", label: "New tokens" },
  ],
  what_if: { params: ["temperature", "repetition_penalty"], in_page: true },
};
const OWN = { temperature: 1, repetition_penalty: 1, num_beams: 4, max_new_tokens: 60 };
const ANSWER = {
  ...{ token: B, recorded: A, same_luck: true, source: "kept", rest: { raw: 0.1, used: 0 } },
  ...{ options: [{ id: A, raw: 0.2, used: 0, removed: "TopK" }], changed: [], pieces: {} },
};

let tabs = 0;

/** A tab of its own with a recorded run, and a server that gives these answers. */
async function tab(answers) {
  const name = `tab-${++tabs}`;
  const root = document.createElement("div");
  document.body.replaceChildren(root);
  const asked = [];
  const { receive } = connectQuestions((question) => {
    asked.push(question.action);
    if (answers[question.action] === null) return;
    receive(JSON.stringify({ id: question.id, ...answers[question.action] }));
  });
  const seen = { preview: null };
  const mount = (_root, ctx) => {
    seen.context = ctx;
    return { update() {}, select() {}, clear() {} };
  };
  stages.register({ only: { title: "Only", mount } });
  stages.mount(root, { strategy: name, visuals: ["only"] }, () => {});
  const values = { ...OWN };
  const form = { dials: document.createElement("div"), box: document.createElement("div") };
  const { params } = STRATEGY;
  const dial = new DialPreview({ ...STRATEGY, name }, { ...form, params, values: () => values });
  const trace = await open("sampling-1");
  for (const step of trace.steps) step.emit = [A];
  const run = store.showTrace(name, recorded(trace), "recorded");
  run.form = { values: OWN };
  store.select(run, 3);
  return {
    ...{ asked, name, run, dial },
    preview: () => seen.context.preview,
    move: async (changes) => {
      Object.assign(values, changes);
      form.dials.dispatchEvent(new Event("input"));
      await paint();
    },
  };
}

test("a dial decides the step in the page, and the server finds the first word that changes", async () => {
  const first = { step: 2, token: 7, recorded: 8 };
  const { asked, preview, move, dial } = await tab({
    step_scores: SCORES,
    what_if_first: { first, pieces: { 7: "seven" } },
  });
  await move({ temperature: 0.5 });
  assert.deepEqual([preview().chosen, preview().setting, preview().step], [B, "0.5", 3]);
  assert.deepEqual(preview().first, { step: 2, token_id: 7, known: true });
  await move({ temperature: 0.6 });
  assert.deepEqual(asked, ["step_scores", "what_if_first", "what_if_first"]);
  await move({ temperature: 1 });
  assert.equal(preview(), null);
  await move({ temperature: 0.5 });
  dial.clear();
  assert.equal(preview(), null);
});

test("the server decides what the page cannot, and a run what neither can", async () => {
  const { asked, preview, move } = await tab({
    step_scores: SCORES,
    what_if: ANSWER,
    what_if_first: { first: null },
  });
  await move({ repetition_penalty: 1.3 });
  assert.deepEqual(asked.slice(-2), ["what_if", "what_if_first"]);
  assert.equal(asked.filter((action) => action === "what_if").length, 1);
  assert.deepEqual([preview().chosen, preview().needle, preview().stale], [B, null, false]);
  assert.deepEqual(preview().rows, [{ token_id: A, own: 0.2, used: 0, removed: "TopK" }]);
  await move({ num_beams: 5 });
  assert.ok(preview().stale && !preview().rows.length);
  await move({ ...OWN, max_new_tokens: 5 });
  assert.equal(preview(), null);
});

test("an answer that is late leaves no picture of other settings behind", async () => {
  const { preview, move } = await tab({ step_scores: SCORES, what_if_first: {}, what_if: null });
  await move({ temperature: 0.5 });
  assert.equal(preview().stale, false);
  const show = stages.setPreview;
  const said = [];
  stages.setPreview = (key, shown) => {
    said.push(Boolean(shown?.pending));
    show.call(stages, key, shown);
  };
  await move({ repetition_penalty: 1.3 });
  stages.setPreview = show;
  assert.ok(preview().stale && !preview().rows.length);
  // Until the question has lasted too long, the step is being decided: it needs no run.
  assert.equal(said[0], true);
});

test("another step is decided again, and another run is shown as it was recorded", async () => {
  const { name, run, preview, move } = await tab({ step_scores: SCORES, what_if_first: {} });
  await move({ temperature: 0.5 });
  store.select(run, 4);
  await paint();
  assert.equal(preview().step, 4);
  store.showTrace(name, recorded(await open("sampling-2")), "recorded");
  assert.equal(preview(), null);
});

test("an answer from the recorded candidates alone is no preview", () => {
  for (const answer of [{ ...ANSWER, source: "recorded" }, { error: "The model is busy." }])
    assert.ok(previewFromAnswer(answer, 3, "0.5").stale);
  assert.equal(previewFromAnswer({ ...ANSWER, same_luck: false }, 3, "0.5").chosen, null);
});

test("a sentence names one changed value, or several with their labels", () => {
  const text = (values) => settingText(changedParameters(STRATEGY, OWN, { ...OWN, ...values }));
  assert.equal(text({ temperature: 0.42 }), "0.42");
  assert.equal(text({ temperature: 0.42, num_beams: 5 }), "Temperature 0.42, Beams 5");
});
