// The pictures of a search, drawn from recorded runs: its tree, its texts, its scores.
import assert from "node:assert/strict";
import { test } from "node:test";
import { click, drawn, enter, press, unfold } from "./stage.mjs";
import { numbers } from "./traces.mjs";

const SEARCHES = ["beam_search-1", "diverse_beam_search-1"];
const poolOf = (steps) => steps.flatMap((step) => step.detail.pool);
const idOf = (node) => node.dpNode.data.node_id;
const minus = (text) => text.replace("-", "−");

// Where the nodes of a tree are, by their columns.
function placesOf(nodes) {
  const columns = new Map();
  for (const node of nodes) {
    const [x, y] = node
      .getAttribute("transform")
      .match(/[\d.]+/g)
      .map(Number);
    columns.set(x, [...(columns.get(x) ?? []), y]);
  }
  return columns;
}

const showDropped = ({ all }) => click(all("button").find((b) => b.textContent === "Show dropped"));

for (const name of SEARCHES)
  test(`${name}: a tree shows what was kept, and the winner as its straight first row`, async () => {
    const { all, run, trace } = await drawn(name, "beam_tree");
    const shown = all(".bt-node:not(.away)");
    const kept = poolOf(trace.steps).filter(({ fate }) => ["kept", "finished"].includes(fate));
    assert.deepEqual(
      shown.map(idOf),
      kept.map((node) => node.node_id),
    );
    const best = all(".bt-node.best");
    assert.equal(new Set(best.map(({ dpNode }) => dpNode.y)).size, 1);
    assert.deepEqual(
      best.map(({ dpNode }) => dpNode.data.token_id),
      trace.outputs[0].token_ids.slice(0, best.length),
    );
    const [winner] = best.map(({ dpNode }) => dpNode);
    assert.ok(
      shown.every(({ dpNode: { data, y } }) => data.group !== winner.data.group || y >= winner.y),
    );
    assert.match(
      all(".bt-root-node > text")[0].textContent,
      new RegExp(`… ${run.prompt.split(" ").at(-1)}$`),
    );
  });

test("a line is as thick as its word was probable, and what died out has a cross", async () => {
  const { all } = await drawn("beam_search-1", "beam_tree");
  const others = all(".bt-node:not(.best)").map(({ dpNode }) => dpNode);
  const widthOf = ({ line }) => Number(line.getAttribute("stroke-width"));
  others.sort((a, b) => a.p - b.p);
  assert.ok(others.every((node, i) => !i || widthOf(node) >= widthOf(others[i - 1])));
  assert.ok(widthOf(others.at(-1)) > 2 * widthOf(others[0]));
  const ends = others.filter(
    ({ dead, children }) => dead && !children.some(({ data }) => data.fate === "kept"),
  );
  assert.ok(ends.length);
  for (const { box } of ends) assert.match(box.textContent, / ✕/);
});

test("a tree is grey while only a run can show the settings of the form", async () => {
  const { all, preview } = await drawn("beam_search-1", "beam_tree");
  const [root] = all(".bt-root");
  await preview({ stale: true });
  assert.ok(root.classList.contains("stale"));
  await preview(null);
  assert.ok(!root.classList.contains("stale"));
});

for (const name of SEARCHES)
  test(`${name}: every candidate is drawn once, and nothing overlaps`, async () => {
    const stage = await drawn(name, "beam_tree");
    const { all, trace } = stage;
    await showDropped(stage);
    const nodes = all(".bt-node");
    assert.deepEqual(
      nodes.map(idOf),
      poolOf(trace.steps).map((node) => node.node_id),
    );
    assert.equal(all(".bt-line").length, nodes.length);
    const places = placesOf(nodes);
    assert.equal(places.size, trace.steps.length);
    for (const rows of places.values()) {
      rows.sort((a, b) => a - b);
      assert.ok(
        rows.every((y, i) => !i || y - rows[i - 1] >= 30),
        `${rows}`,
      );
    }
    const { keep, emit } = trace.steps.at(-1);
    assert.equal(all(".bt-node.best").length, keep + emit.length);
  });

test("kept texts that died out are told from the living", async () => {
  const { all, trace } = await drawn("beam_search-1", "beam_tree");
  const nodes = poolOf(trace.steps);
  const parents = new Map(nodes.map((node) => [node.node_id, node.parent_id]));
  const last = trace.steps.at(-1).detail.pool;
  const alive = new Set();
  for (const node of nodes)
    if (node.fate === "finished" || (node.fate === "kept" && last.includes(node)))
      for (let at = node.node_id; at !== -1; at = parents.get(at)) alive.add(at);
  const dead = nodes
    .filter(({ fate, node_id: id }) => fate === "kept" && !alive.has(id))
    .map((node) => node.node_id);
  assert.ok(dead.length);
  assert.deepEqual(all(".bt-node.dead").map(idOf).sort(), dead.sort());
});

test("a tree grows step by step, and no node is drawn twice", async () => {
  const stage = await drawn("beam_search-1", "beam_tree");
  await stage.rewind(0);
  const known = new Set();
  for (const { index, detail } of stage.trace.steps) {
    await stage.rewind(index + 1);
    const nodes = stage.all(".bt-node");
    assert.equal(nodes.filter((node) => !known.has(node)).length, detail.pool.length);
    for (const node of nodes) known.add(node);
  }
});

test("a node is chosen by a click, and keys go along its text", async () => {
  const { all, text, run, trace } = await drawn("beam_search-1", "scrub", "beam_tree");
  const step = 4;
  const node = all(".bt-node").find(
    ({ dpNode }) => dpNode.column === step && dpNode.data.fate === "pruned",
  );
  await click(node);
  assert.match(text(".bt-facts"), /step 5: dropped\. It missed the cut by/);
  assert.equal(text(".dp-scrub output"), `Word 5 of ${run.tokens[0].length}`);
  assert.equal(all(".bt-pool-box tbody tr").length, trace.steps[step].detail.pool.length);
  const ids = [];
  const nodes = new Map(poolOf(trace.steps).map((one) => [one.node_id, one]));
  for (let at = idOf(node); at !== -1; at = nodes.get(at).parent_id)
    ids.unshift(nodes.get(at).token_id);
  assert.equal(
    text(".bt-facts q"),
    ids
      .map((id) => run.pieces[id])
      .join("")
      .trimStart(),
  );
  await press(node, "ArrowLeft");
  assert.match(text(".bt-facts"), /step 4: kept/);
  await press(all(".bt-node.sel")[0], "ArrowRight");
  assert.match(text(".bt-facts"), /step 5/);
  await press(all(".bt-node.sel")[0], "End");
  assert.match(text(".bt-facts"), new RegExp(`step ${trace.steps.length}`));
  const { stop_reason: why, heap } = trace.steps.at(-1).detail;
  assert.ok(text(".bt-test").includes(why));
  assert.equal(all(".bt-state li").length, heap.length);
});

test("what was dropped is folded away, and one branch is unfolded again", async () => {
  const stage = await drawn("beam_search-1", "beam_tree");
  const { all } = stage;
  const seen = () => all(".bt-node:not(.away)");
  const total = all(".bt-node").length;
  const kept = all(".bt-node").filter(({ dpNode: { data } }) =>
    ["kept", "finished"].includes(data.fate),
  );
  assert.deepEqual(new Set(seen()), new Set(kept));
  const badge = all(".bt-node.best .bt-badge").at(-1);
  const hidden = Number(badge.textContent.slice(1));
  await click(badge);
  assert.equal(seen().length, kept.length + hidden);
  assert.equal(badge.textContent, `−${hidden}`);
  await showDropped(stage);
  assert.equal(seen().length, total);
  await showDropped(stage);
  assert.equal(seen().length, kept.length);
});

test("greedy search is compared with the winner", async () => {
  const { all, text, run, trace } = await drawn("beam_search-1", "beam_tree");
  const { greedy } = trace.steps.at(-1).detail;
  assert.ok(text(".bt-greedy .g .sum").includes(minus(greedy.sum_logprobs.toFixed(2))));
  assert.ok(text(".bt-greedy").includes(`leaves the greedy path at token ${greedy.left_at + 1}`));
  const words = greedy.token_ids.map((id) => run.pieces[id].replace("\n", "⏎")).join("");
  assert.equal(text(".bt-greedy .g .bt-words").trim(), words.trim());
  const marked = all(".bt-node.greedy").map(({ dpNode }) => dpNode.data.token_id);
  assert.deepEqual(marked, greedy.token_ids.slice(0, marked.length));
});

test("diverse groups have lanes with a name and a shape, and show what a token cost", async () => {
  const { all, texts, trace } = await drawn("diverse_beam_search-1", "beam_tree");
  const groups = trace.config.num_beam_groups;
  const names = Array.from({ length: groups }, (_, i) => `Group ${i + 1}`);
  assert.deepEqual(texts(".bt-labels text"), names);
  const shapes = texts(".bt-root-node > text").map((root) => root.split(" ")[0]);
  assert.equal(new Set(shapes).size, groups);
  const lanes = names.map((_, i) =>
    all(".bt-node:not(.away)").filter((n) => n.dpNode.data.group === i),
  );
  const [top, bottom] = [Math.min, Math.max].map((edge) =>
    lanes.map((lane) => edge(...lane.map(({ dpNode }) => dpNode.y))),
  );
  assert.ok(top.every((y, i) => !i || y > bottom[i - 1]));
  const charged = all(".bt-node").filter(({ dpNode }) => dpNode.data.diversity_penalty > 0);
  assert.ok(charged.length);
  assert.equal(all(".bt-charge").length, charged.length);
});

for (const name of SEARCHES)
  test(`${name}: another length penalty ranks the texts as the engine does`, async () => {
    const { root, all, text } = await drawn(name, "beam_rescore");
    const slider = root.querySelector("input[type=range]");
    for (const { penalty, ranking, end, rerun } of numbers[name].rescored) {
      await enter(slider, penalty);
      const note = root.querySelector(".dp-note");
      const [[first, length, sum, score]] = ranking;
      assert.equal(note.dataset.first, String(first));
      assert.equal(note.dataset.end, String(end));
      assert.ok(note.textContent.includes(rerun));
      assert.equal(all(".br-list li").length, Math.min(12, ranking.length));
      const written = text(".br-list li .sum");
      const shown = minus(penalty.toFixed(1));
      assert.ok(written.startsWith(`${minus(sum.toFixed(2))} ÷ ${length}^${shown} = `), written);
      if (Math.abs(score) >= 0.1 && Math.abs(score) < 1000)
        assert.ok(written.endsWith(`= ${minus(score.toFixed(2))}`));
    }
  });

test("the candidates of a search are those of the chosen node", async () => {
  const { text, texts, run, select, trace } = await drawn(
    "beam_search-1",
    "candidates",
    "beam_tree",
  );
  const visible = (id) => run.pieces[id].replaceAll(" ", "·").replaceAll("\n", "⏎");
  const { index, detail } = trace.steps[6];
  for (const node of detail.pool) {
    await select(index, node.node_id);
    const name = visible(node.token_id);
    assert.equal(text(".cb-row.on .cb-name"), name.replace("·", ""));
    assert.ok(text(".bt-facts .bt-title").includes(name));
    const siblings = detail.pool.filter((other) => other.parent_id === node.parent_id);
    assert.ok(texts(".cb-name").length > siblings.length);
  }
  await select(index);
  const own = visible(trace.outputs[0].token_ids[index]);
  assert.equal(text(".cb-row.on .cb-name"), own.replace("·", ""));
});

test("all texts of diverse beams are listed with their groups and scores", async () => {
  const { texts, trace } = await drawn("diverse_beam_search-1", "strip");
  const heads = texts(".dp-strip .who");
  assert.equal(heads.length, trace.outputs.length);
  for (const [i, { score, token_ids: ids }] of trace.outputs.entries()) {
    assert.ok(heads[i].includes(`Output ${i + 1} · group`), heads[i]);
    assert.ok(heads[i].includes(`score ${minus(score.toFixed(2))}`), heads[i]);
    assert.ok(heads[i].includes(`${ids.length} tokens`), heads[i]);
  }
});

test("the table of a tree has every candidate", async () => {
  const { root, all, trace } = await drawn("beam_search-1", "beam_tree");
  await unfold(root.querySelector(".bt-more"));
  assert.equal(all(".bt-more tbody tr").length, poolOf(trace.steps).length);
});
