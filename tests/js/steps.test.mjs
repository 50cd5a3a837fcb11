// What is drawn of one step of a recorded run, of what is hidden while it is guessed, and how a run is played.
import assert from "node:assert/strict";
import { test } from "node:test";
import { click, drawn, enter, paint, press, stageOf } from "./stage.mjs";
import { names, numbers, open, recorded } from "./traces.mjs";

// It makes its elements with the page of the stage.
const { PlayBar } = await import("../../visualizers/stage/play.mjs");
const { setFilterTitles } = await import("../../visualizers/shared/processors.mjs");

test("a step says the model's probability, what filters removed and the entropies", async () => {
  setFilterTitles({ TopK: "Top-k" });
  const { all, text, texts, select, trace } = await drawn("sampling-1", "strip", "xray", "chart");
  await select(4);
  const said = all('.dp-tok[data-step="4"]')[0].getAttribute("aria-label");
  assert.match(said, /the model's own probability.*with your settings/);
  assert.match(
    text(".dp-v-xray .dp-note:last-child"),
    /model's own distribution.*with your settings: [\d.]+ bits/,
  );
  const row = texts(".dp-v-xray tbody tr").find((line) => line.includes("Top-k"));
  const gone = (trace.model.vocab_size - 50).toLocaleString("en");
  assert.ok(row.includes(`${gone} removed`), row);
  const [curves] = all(".dp-plot-of-steps");
  assert.deepEqual([curves.dataset.mark, curves.dataset.sequence], ["5", "0"]);
});

for (const name of ["greedy-1", "speculative-1", "watermark-1"])
  test(`${name}: the time to the first token is that of its first step`, async () => {
    const { text, trace } = await drawn(name, "figures");
    const first = trace.steps[0].elapsed_s;
    const said = `time to first token ${Math.round(1000 * first)} ms`;
    assert.ok(text(".dp-costs").includes(said), text(".dp-costs"));
    assert.ok(first <= trace.timing.total_s);
  });

for (const name of ["speculative-1", "prompt_lookup-1"])
  test(`${name}: a token shows the probability of its own place`, async () => {
    const { run, trace } = await drawn(name, "strip");
    const expected = trace.steps.flatMap(({ detail, candidates, emit }) => {
      const accepted = detail.tokens.filter((t) => t.status === "accepted").map((t) => t.p);
      const own = candidates.find((c) => c.token_id === emit.at(-1));
      return [...accepted, Math.exp(own.raw_logprob)].slice(0, emit.length);
    });
    const used = run.tokens[0].map((token) => token.used);
    assert.equal(used.length, expected.length);
    assert.ok(used.every((p, i) => Math.abs(p - expected[i]) < 1e-4));
  });

test("beam_search-1: a token shows the probability of its node", async () => {
  const { run, trace } = await drawn("beam_search-1", "strip");
  const nodes = new Map(trace.steps.flatMap((s) => s.detail.pool.map((n) => [n.node_id, n])));
  const expected = [];
  for (let at = trace.steps.at(-1).detail.winner_node_id; at !== -1; at = nodes.get(at).parent_id)
    expected.unshift(Math.exp(nodes.get(at).logprob));
  const used = run.tokens[0].map((token) => token.used);
  assert.equal(used.length, expected.length);
  assert.ok(used.every((p, i) => Math.abs(p - expected[i]) < 1e-4));
});

for (const name of ["greedy-1", "beam_search-1", "contrastive_search-1", "dola-1"])
  test(`${name}: where nothing is drawn, one sentence says so`, async () => {
    const { all, text } = await drawn(name, "draw");
    assert.match(text(".rc-content"), /^Nothing was drawn at this step/);
    assert.equal(all(".rc-race, .sl-strip").length, 0);
  });

test("a draw is a race, with its numbers behind it", async () => {
  const { root, all, text, select, trace } = await drawn("sampling-1", "draw");
  await select(4);
  const { racers } = trace.steps[4].detail;
  assert.equal(all(".rc-mark").length, racers.length);
  assert.match(text(".rc-label.on"), /wins/);
  const places = all(".rc-mark").map((mark) =>
    Number.parseFloat(/--at:([\d.]+)/.exec(mark.getAttribute("style"))[1]),
  );
  assert.deepEqual(
    places,
    [...places].sort((a, b) => a - b),
  );
  const labels = all("[role=img]").map((node) => node.getAttribute("aria-label"));
  assert.ok(labels.some((label) => label.startsWith("Arrivals")));
  assert.equal(root.querySelectorAll("tbody tr").length, racers.length);
});

test("the race of a step runs once, and that of another step runs too", async () => {
  const { all, select } = await drawn("sampling-1", "draw");
  const [first, second] = [3, 4];
  const runs = () => all(".rc-race.rc-run").length;
  for (const [step, fresh] of [
    [first, 1],
    [second, 1],
    [first, 0],
    [second, 0],
  ]) {
    await select(step);
    assert.equal(runs(), fresh, `step ${step}`);
    for (const race of all(".rc-run"))
      for (const kind of ["animationstart", "animationend"]) race.dispatchEvent(new Event(kind));
    assert.equal(runs(), 0);
  }
});

const WITH_FORMULAS = names.filter(
  (name) =>
    name.endsWith("-1") &&
    !name.includes("smollm2") &&
    numbers[name].shown.some(({ formula }) => formula?.lines?.length),
);

for (const name of WITH_FORMULAS)
  test(`${name}: formulas are said with the numbers of the step`, async () => {
    const { all, texts, select, trace } = await drawn(name, "formula");
    const seen = new Set();
    for (const step of [1, trace.steps.length - 1]) {
      await select(step);
      const formulas = all("math");
      assert.ok(formulas.length >= 2);
      assert.match(formulas[0].getAttribute("aria-label"), / equals | is at most /);
      seen.add(texts(".numbers").join("\n"));
    }
    assert.equal(seen.size, 2);
  });

// A run whose tokens have names that are nowhere else.
async function marked(name) {
  const { trace, shown } = recorded(await open(name));
  const pieces = Object.keys(trace.pieces).map((id) => [id, `tok${id}x`]);
  return { trace: { ...trace, pieces: Object.fromEntries(pieces), notes: ["tok-note"] }, shown };
}

const idsOf = ({ emit, candidates }) => [...emit, ...candidates.map((c) => c.token_id)];

// Names of tokens that nothing before a step names, and those of them that are on the stage.
function leakedAt(root, trace, index) {
  const page = root.cloneNode(true);
  page.querySelector(".pd-offers")?.remove();
  const before = trace.steps.slice(0, index);
  // Whatever number a picture of an earlier step may name.
  const named = before.flatMap(({ detail }) =>
    JSON.stringify(detail ?? 0)
      .match(/\d+/g)
      .map(Number),
  );
  const accepted = trace.steps[index].emit.slice(0, -1);
  const known = new Set([...trace.prompt_ids, ...before.flatMap(idsOf), ...named, ...accepted]);
  const secret = trace.steps
    .slice(index)
    .flatMap(idsOf)
    .filter((id) => !known.has(id));
  const html = page.outerHTML;
  return [secret.length, secret.filter((id) => html.includes(trace.pieces[id]))];
}

const PICTURES = {
  "greedy-1": ["chart"],
  "sampling-1": ["draw", "xray", "chart"],
  "beam_search-1": ["beam_tree", "beam_rescore"],
  "speculative-1": ["draft_timeline"],
  "dola-1": ["layer_heatmap"],
};

for (const [name, own] of Object.entries(PICTURES))
  test(`${name}: nothing of a step is on the stage before it is guessed`, async () => {
    const given = await marked(name);
    const common = ["about", "status", "strip", "predict", "scrub", "candidates", "formula"];
    const { root, all, text } = await stageOf(given, ...common, ...own);
    const button = (label) => all("button").find((one) => one.textContent === label);
    await click(all("[role=switch]")[0]);
    for (let guesses = 0; guesses < 4; guesses++) {
      const arrows = all(".dp-scrub")[0];
      assert.equal(arrows.closest("[hidden]") === null, guesses > 0, "arrows only with a word");
      const index = Number(/Step (\d+)/.exec(text(".dp-v-predict legend"))[1]) - 1;
      const [secret, leaked] = leakedAt(root, given.trace, index);
      assert.ok(secret > 0);
      assert.deepEqual(leaked, [], `step ${index}`);
      await click(button("Show it"));
      assert.ok(all(`.dp-tok[data-step="${index}"]`).length, "then it is shown");
      const { keep, emit } = given.trace.steps[index];
      assert.equal(
        text(".dp-v-scrub output"),
        `Word ${keep + emit.length} of ${keep + emit.length}`,
      );
      await click(button("Next"));
    }
  });

test("a recorded run is walked through by keys, and played", async () => {
  const shown = [];
  const bar = new PlayBar((count) => shown.push(count));
  document.body.append(bar.node);
  bar.load(9);
  assert.equal(bar.label.textContent, "9 of 9 steps");
  document.body.addEventListener("keydown", (event) => bar.press(event));
  for (const [key, count] of [
    ["Home", 0],
    ["ArrowRight", 1],
    ["ArrowRight", 2],
    ["ArrowLeft", 1],
    ["End", 9],
  ]) {
    await press(bar.node, key);
    assert.equal(shown.at(-1), count, key);
    assert.equal(bar.label.textContent, `${count} of 9 steps`);
  }
  await press(bar.node, "Home");
  shown.length = 0;
  await press(bar.node, " ");
  assert.deepEqual(shown, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.match(bar.play.textContent, /Play/);
  bar.hold(true);
  await press(bar.node, "Home");
  assert.equal(shown.at(-1), 9, "while it is held, keys do nothing");
  await enter(bar.range, 4);
  await paint();
});

test("a long text scrolls to the selected word if that is out of sight", async () => {
  const { all, select } = await drawn("sampling-1", "strip");
  const [box] = all(".dp-strip");
  const word = (step) => all(`.dp-tok[data-step="${step}"]`)[0];
  const place = (node, top, bottom) => {
    node.getBoundingClientRect = () => ({ top, bottom });
  };
  Object.assign(box, { scrollHeight: 900, clientHeight: 200, scrollTop: 50 });
  place(box, 100, 300);
  place(word(4), 120, 140);
  place(word(9), 500, 520);
  await select(4);
  assert.equal(box.scrollTop, 50);
  await select(9);
  assert.equal(box.scrollTop, 50 + 520 - 300 + 8);
});
