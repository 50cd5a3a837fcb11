// What is found in the records of runs: where they part, what a branch keeps.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  choiceLabel,
  keptTokenIds,
  listChoices,
  suggestedIndex,
} from "../../playground/client/runs/branch_choices.mjs";
import {
  branchOrigin,
  firstWords,
  listBranches,
  nameKeptTokens,
  relatedRuns,
  rememberRun,
  rootRun,
  runFigure,
} from "../../playground/client/runs/related_runs.mjs";
import { Store } from "../../playground/client/shell/store.mjs";
import { describeSide, divergenceText } from "../../visualizers/compare/divergence.mjs";
import { contextIds } from "../../visualizers/contrastive/words.mjs";
import { Grid } from "../../visualizers/layer_heatmap/grid.mjs";
import { findSelectedNode } from "../../visualizers/shared/record.mjs";
import { names, open, recorded } from "./traces.mjs";

const shown = async (name) =>
  new Store().showTrace("replay", recorded(await open(name)), "replayed");

const run = (ids, more = {}) => ({
  model: { vocab_size: 10 },
  prompt_ids: [1],
  status: "finished",
  pieces: {},
  tokens: [ids.map((id) => ({ id }))],
  ...more,
});

test("every token has what its summary says of it, also where a step changed the text", async () => {
  for (const name of names) {
    const { tokens, outputs, ...record } = await shown(name);
    for (const { step, p, used, bits } of tokens[0]) {
      // Masked diffusion tells of a word when all words before it are there, in a later pass.
      const passes = record.strategy === "masked_diffusion" ? record.shown : [record.shown[step]];
      const told = passes.some(
        ({ text }) => text.p.includes(p) && text.used.includes(used) && text.bits.includes(bits),
      );
      assert.ok(told, name);
    }
    assert.deepEqual(
      tokens[0].map((t) => t.id),
      outputs[0].token_ids,
      name,
    );
    assert.ok(
      tokens[0].flatMap(({ p, used }) => [p, used]).every((p) => p === null || (p > 0 && p <= 1)),
      name,
    );
    // No filter changes the distributions of masked diffusion, so there is nothing it used instead.
    const filled = record.strategy === "masked_diffusion";
    assert.equal(
      tokens[0].some(({ used }) => used !== null),
      !filled,
      name,
    );
  }
});

test("what a run saw at a place", async () => {
  const greedy = await shown("greedy-1");
  const seen = describeSide(greedy, 3);
  assert.equal(seen.chosen, greedy.outputs[0].token_ids[3]);
  assert.ok(seen.list.some((c) => c.token_id === seen.chosen));
  assert.deepEqual(describeSide(greedy, 1e6), { words: "The text had ended." });
  const beams = describeSide(await shown("beam_search-1"), 2);
  const sums = beams.pool.map((n) => n.sum_logprobs);
  assert.deepEqual(
    sums,
    [...sums].sort((a, b) => b - a),
  );
  assert.ok(beams.path.size > 2);
});

test("a branch keeps the tokens before its step, on a beam those of its own path", async () => {
  for (const name of names) {
    const record = await shown(name);
    const ids = record.outputs[0].token_ids;
    // Beams have paths of their own, and a text written in any order has no branches.
    const own = record.steps.filter(
      (s) => !s.sequence && s.detail?.kind !== "beam" && s.detail?.kind !== "fill",
    );
    const text = [];
    for (const step of own) {
      const before = [...text.slice(0, step.keep), ...step.emit.slice(0, -1)];
      assert.deepEqual(keptTokenIds(record, step, null), before);
      text.splice(step.keep, Number.POSITIVE_INFINITY, ...step.emit);
    }
    if (own.length) assert.deepEqual(text, ids);
  }
  const search = await shown("beam_search-1");
  const last = search.steps.at(-1);
  const { winner_node_id: winner } = last.detail;
  const index = search.steps.findIndex((s) => s.detail.pool.some((n) => n.node_id === winner));
  const step = search.steps[index];
  const node = step.detail.pool.find((n) => n.node_id === winner);
  assert.deepEqual(keptTokenIds(search, step, node), search.outputs[0].token_ids.slice(0, index));
});

test("the suggestion is what was asked for, else the best that was not taken", async () => {
  const record = await shown("greedy-1");
  const step = record.steps[4];
  const all = listChoices(record, step);
  const [taken, other] = [all[suggestedIndex(step, all, null)], all[3]];
  assert.notEqual(taken.token_id, step.emit.at(-1));
  assert.ok(taken.usable);
  const wanted = { step: step.index, token_id: other.token_id };
  assert.equal(suggestedIndex(step, all, wanted), 3);
  assert.equal(all[suggestedIndex(step, all, { ...wanted, step: 9 })], taken);
});

test("a family is a run with its branches, and theirs", () => {
  const parent = (run_id) => ({ run_id, token_ids: [5], text: null, step: 2 });
  const root = run([1], { id: "root", pieces: { 1: " a", 5: " pond" } });
  const child = run([1], { id: "child", parent: parent("root"), pieces: { 5: " pond" } });
  const grandchild = run([1], { id: "grandchild", parent: parent("child") });
  for (const member of [root, child, grandchild, child]) rememberRun(member);
  assert.equal(rootRun(grandchild), root);
  assert.deepEqual(
    listBranches(root).map(([m, depth]) => [m.id, depth]),
    [
      ["root", 0],
      ["child", 1],
      ["grandchild", 2],
    ],
  );
  assert.deepEqual(
    [branchOrigin(root), branchOrigin(child)],
    ["the first run", "‘ pond’ at step 3"],
  );
  assert.equal(firstWords(root), " a");
  assert.equal(
    runFigure({ status: "finished", metrics: { mean_logprob: -0.5 }, outputs: [] }),
    "log-probability −0.50 a token (nats)",
  );
  assert.equal(runFigure({ status: "finished", outputs: [{ score: null }] }), "");
  relatedRuns.clear();
});

test("the layer map has a number for every layer and step, and no markup of a model's", async () => {
  const record = await open("dola-1");
  record.pieces[record.steps[0].emit[0]] = "<img>";
  const grid = new Grid("rank", "raw");
  grid.grow(record);
  assert.equal(grid.z.length, record.steps[0].detail.layers.length);
  assert.ok(grid.z.every((row) => row.length === record.steps.length));
  assert.ok(!grid.text.flat().some((text) => text.includes("<img")));
  const framed = [...grid.outline.matchAll(/M([\d.]+),(-?[\d.]+)H/g)].map(([, x, y]) => [+x, +y]);
  assert.deepEqual(
    framed,
    record.steps.map((step, i) => [i + 0.5, step.detail.premature_layer - 0.5]),
  );
  grid.grow(record);
  assert.equal(grid.z[0].length, record.steps.length, "nothing is counted twice");
});

test("a candidate's position counts the prompt and the tokens before its step", async () => {
  const record = await open("contrastive_search-1");
  const ids = contextIds(record, 3);
  assert.deepEqual(ids, [...record.prompt_ids, ...record.outputs[0].token_ids.slice(0, 3)]);
});

test("a search shows the node that was chosen, else that of the leading text", async () => {
  const run = await shown("beam_search-1");
  for (const [index, id] of run.outputs[0].token_ids.entries()) {
    const { node, path } = findSelectedNode(run, run.steps[index]);
    assert.equal(node.token_id, id);
    assert.deepEqual(
      path.map((n) => n.token_id),
      run.outputs[0].token_ids.slice(0, index + 1),
    );
  }
  const step = run.steps[5];
  const other = step.detail.pool.at(-1);
  assert.equal(findSelectedNode({ ...run, node: other.node_id }, step).node, other);
  assert.equal(findSelectedNode(await shown("greedy-1"), run.steps[0]), null);
});

test("where two texts part is said of each two, and one token is no tokens", () => {
  assert.equal(divergenceText(0), "The texts diverge at the very first token.");
  assert.equal(divergenceText(1), "The first token is the same; the texts diverge at token 2.");
});

test("a branch is offered with the model's probability and the one that was used", async () => {
  const run = await shown("sampling-1");
  const step = run.steps.at(-1);
  const [first] = listChoices(run, step);
  const said = choiceLabel(run, step, first);
  assert.match(said, /the model's own [\d.]+ %, with your settings [\d.]+ %$/);
});

test("a branch on a server has the texts of the tokens that it continues from its run", () => {
  const parent = run([], { id: "parent", pieces: { 1: " one", 2: " two" } });
  rememberRun(parent);
  const branch = run([], {
    served: {},
    parent: { run_id: "parent" },
    pieces: { 1: "\ufffd1", 2: " two", 3: "\ufffd3" },
  });
  nameKeptTokens(branch);
  assert.deepEqual(branch.pieces, { 1: " one", 2: " two", 3: "\ufffd3" });
});
