// The beam tree without its drawing: places, moves, and another length penalty.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Forest } from "../../visualizers/beam_tree/forest.mjs";
import { Layout } from "../../visualizers/beam_tree/layout.mjs";
import { findNeighbour } from "../../visualizers/beam_tree/navigation.mjs";
import { rescore } from "../../visualizers/beam_tree/rescore.mjs";
import { pathTo } from "../../visualizers/beam_tree/words.mjs";
import { names, open, recorded } from "./traces.mjs";

const SEARCHES = names.filter((name) => name.includes("beam"));

function grown(trace) {
  const forest = new Forest(trace.config);
  const { shown } = recorded(trace);
  trace.steps.forEach((step, i) => {
    forest.add(step.detail.pool, shown[i].beam_tree);
  });
  return forest;
}

for (const name of SEARCHES) {
  test(`${name}: no two words of a step share a row, and dropped ones move nothing`, async () => {
    const trace = await open(name);
    const forest = grown(trace);
    const best = pathTo(forest.nodes.get(recorded(trace).shown.at(-1).beam_tree.best));
    for (const node of forest.nodes.values()) node.width = 30;
    const layout = new Layout(forest);
    const seen = (column) => column.filter((node) => !node.hidden);
    layout.arrange(best);
    const kept = forest.columns.flatMap(seen).map((node) => [node, node.row]);
    const height = layout.height;
    layout.foldAll(false);
    layout.arrange(best);
    assert.ok(forest.columns.every((column) => seen(column).length === column.length));
    assert.ok(kept.every(([node, row]) => node.row === row));
    assert.ok(best.every((node) => node.row === 0));
    assert.ok(layout.height > height);
    for (const column of forest.columns) {
      assert.equal(new Set(column.map((node) => node.y)).size, column.length);
      assert.ok(Math.max(...column.map((node) => node.y)) < layout.height);
    }
  });

  test(`${name}: the winner's path is the text, and keys walk along it`, async () => {
    const trace = await open(name);
    const forest = grown(trace);
    const best = pathTo(forest.nodes.get(recorded(trace).shown.at(-1).beam_tree.best));
    const [output] = trace.outputs;
    assert.deepEqual(
      best.map((n) => n.data.token_id),
      output.token_ids.slice(0, best.length),
    );
    best.forEach((node, i) => {
      node.y = 0;
      assert.equal(findNeighbour(forest, best, node, "ArrowLeft"), best[i - 1] ?? null);
      assert.equal(findNeighbour(forest, best, node, "ArrowRight"), best[i + 1]);
      assert.equal(findNeighbour(forest, best, node, "Home"), best[0]);
      assert.equal(findNeighbour(forest, best, node, "End"), best.at(-1));
      assert.equal(findNeighbour(forest, best, node, "x"), null);
    });
  });

  test(`${name}: with its own penalty the search ends where it did, on its winner`, async () => {
    const trace = await open(name);
    const last = trace.steps.at(-1).detail;
    const { lines, end, rerun } = rescore(trace, trace.config.length_penalty);
    assert.equal(lines[0].node.node_id, last.winner_node_id);
    assert.deepEqual([end, rerun], [trace.steps.length - 1, ""]);
    assert.ok(lines.every((line, i) => !i || lines[i - 1].score >= line.score));
    for (const { node, length, score } of lines)
      assert.ok(Math.abs(score - node.sum_logprobs / length ** trace.config.length_penalty) < 1e-9);
  });
}

test("hidden nodes are passed over, and up and down go by height", () => {
  const node = (y, group, hidden = false) => ({ y, hidden, column: 0, data: { group } });
  const [a, b, c, d] = [node(10, 0), node(30, 0), node(20, 0, true), node(50, 1)];
  const forest = { columns: [[d, b, a, c]] };
  const go = (from, key) => findNeighbour(forest, [], from, key);
  assert.equal(go(a, "ArrowDown"), b);
  assert.equal(go(b, "ArrowDown"), d);
  assert.equal(go(d, "ArrowUp"), b);
  assert.equal(go(a, "ArrowUp"), undefined);
  assert.equal(go(a, "PageDown"), b);
  assert.equal(go(b, "PageUp"), a);
});

test("texts that died out are those that the summary names", async () => {
  const trace = await open("beam_search-1");
  const forest = grown(trace);
  const named = recorded(trace).shown.flatMap(({ beam_tree }) => beam_tree.died);
  const dead = [...forest.nodes.values()].filter((node) => node.dead);
  assert.ok(named.length > 0);
  assert.deepEqual(new Set(dead.map((node) => node.data.node_id)), new Set(named));
});
