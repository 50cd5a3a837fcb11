// The beam tree without its drawing: places, moves, and another length penalty.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Forest } from "../../visualizers/beam_tree/forest.mjs";
import { heightOf, TOP, yOf } from "../../visualizers/beam_tree/geometry.mjs";
import { neighbour } from "../../visualizers/beam_tree/moves.mjs";
import { rescore } from "../../visualizers/beam_tree/rescore.mjs";
import { pathTo } from "../../visualizers/beam_tree/words.mjs";
import { names, open } from "./traces.mjs";

const SEARCHES = names.filter((name) => name.includes("beam"));

function grown(trace) {
  const forest = new Forest(trace.config);
  for (const step of trace.steps) forest.add(step.detail.pool);
  return forest;
}

for (const name of SEARCHES) {
  test(`${name}: no two texts of a step that go on or end share a place`, async () => {
    const trace = await open(name);
    const forest = grown(trace);
    let top = TOP;
    for (const group of forest.groups) {
      group.top = top;
      top += heightOf(group);
    }
    for (const column of forest.columns) {
      const placed = column.filter((n) => n.slot !== "drop");
      const rows = placed.map((n) => yOf(forest.groups[n.data.group], n));
      assert.equal(new Set(rows).size, placed.length);
      assert.ok(Math.max(...rows) < top);
      const kept = column.filter((n) => n.data.fate === "kept");
      assert.ok(kept.every((n) => n.slot === "lane" && n.index < forest.lanes));
    }
  });

  test(`${name}: the winner's path is the text, and keys walk along it`, async () => {
    const trace = await open(name);
    const forest = grown(trace);
    const best = pathTo(forest.best(trace.steps.at(-1).detail));
    const [output] = trace.outputs;
    assert.deepEqual(
      best.map((n) => n.data.token_id),
      output.token_ids.slice(0, best.length),
    );
    best.forEach((node, i) => {
      node.y = 0;
      assert.equal(neighbour(forest, best, node, "ArrowLeft"), best[i - 1] ?? null);
      assert.equal(neighbour(forest, best, node, "ArrowRight"), best[i + 1]);
      assert.equal(neighbour(forest, best, node, "Home"), best[0]);
      assert.equal(neighbour(forest, best, node, "End"), best.at(-1));
      assert.equal(neighbour(forest, best, node, "x"), null);
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
  const go = (from, key) => neighbour(forest, [], from, key);
  assert.equal(go(a, "ArrowDown"), b);
  assert.equal(go(b, "ArrowDown"), d);
  assert.equal(go(d, "ArrowUp"), b);
  assert.equal(go(a, "ArrowUp"), undefined);
  assert.equal(go(a, "PageDown"), b);
  assert.equal(go(b, "PageUp"), a);
});

test("texts that died out fade with their ancestors", () => {
  const node = (node_id, parent_id, fate) => ({ node_id, parent_id, fate, group: 0, token_id: 1 });
  const forest = new Forest({ num_beams: 2 });
  forest.add([node(0, -1, "kept"), node(1, -1, "kept")]);
  const second = forest.add([node(2, 0, "kept"), node(3, 1, "kept")]);
  assert.deepEqual(second.dead, []);
  const third = forest.add([node(4, 2, "kept"), node(5, 2, "kept"), node(6, 3, "pruned")]);
  assert.deepEqual(
    third.dead.map((n) => n.data.node_id),
    [3, 1],
  );
});
