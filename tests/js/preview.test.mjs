// A step under settings that were not run: how the stage passes it to the views.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./stage.mjs";
import { open, recorded } from "./traces.mjs";

const { Stages } = await import("../../visualizers/stage/stage.mjs");
const { Recordings } = await import("../../visualizers/stage/recordings.mjs");

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
