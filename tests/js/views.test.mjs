// The pictures of single runs, drawn from recorded ones: candidates, draws, layers, rounds, passes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createCoveredRun } from "../../visualizers/predict/covered_run.mjs";
import { el } from "../../visualizers/shared/dom.mjs";
import { createLookView } from "../../visualizers/stage/look.mjs";
import { Panels } from "../../visualizers/stage/panels.mjs";
import { choose, click, drawn, press, seenFromOutside, stageOf, unfold } from "./stage.mjs";
import { open } from "./traces.mjs";

const visible = (text) => text.replaceAll(" ", "·").replaceAll("\n", "⏎");
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const near = (a, b, most) => assert.ok(Math.abs(a - b) <= most, `${a} is not near ${b}`);

test("contrastive: steps in which similarity decided lead to their bars and arcs", async () => {
  const { all, text, run, trace } = await drawn("contrastive_search-1", "contrastive");
  const changed = trace.steps.filter(({ detail }) => detail.chosen !== 0);
  assert.ok(changed.length);
  const chips = all(".cs-chip");
  assert.equal(chips.length, changed.length);
  assert.ok(text(".cs-total").includes(`${changed.length} of ${trace.steps.length} steps`));
  await click(chips[0]);
  const { options, chosen } = changed[0].detail;
  const winner = options[chosen];
  assert.equal(all(".cs-row").length, options.length);
  assert.equal(text(".cs-row.on .t"), visible(run.pieces[winner.token_id]));
  assert.equal(all(".cs-arcs path").length, options.length);
  assert.equal(all(".cs-arcs path.on").length, 1);
  // Bars are to one scale: their widths are in the ratio of the numbers.
  const width = (kind) => Number.parseFloat(all(`.cs-row.on .cs-bar .${kind}`)[0].style.width);
  near(width("conf"), 100 * winner.confidence, 1e-6);
  near(width("pen"), 100 * winner.degeneration_penalty, 1e-6);
  const linked = all(".cs-line .linked").map((node) => node.getAttribute("title"));
  assert.ok(linked.includes(`token ${winner.position + 1}`));
});

test("contrastive: a row that is pointed at marks its arc, and a table has every candidate", async () => {
  const { root, all, trace } = await drawn("contrastive_search-1", "contrastive");
  const [row] = all(".cs-row");
  row.dispatchEvent(new Event("focus"));
  assert.equal(all(".cs-arcs path.hot").length, 1);
  row.dispatchEvent(new Event("blur"));
  assert.equal(all(".cs-arcs path.hot").length, 0);
  await unfold(root.querySelector(".cs-more"));
  const options = sum(trace.steps.map(({ detail }) => detail.options.length));
  assert.equal(all(".cs-more tbody tr").length, options);
});

const VALUES = {
  entropy: (bits) => bits / Math.log(2),
  rank: (rank) => Math.log10(rank + 1),
  logprob: (logprob) => Math.max(-20, logprob),
  divergence: (nats) => nats,
};

test("layers: the map has every value of every layer, in both projections", async () => {
  const { root, all, text, trace } = await drawn("dola-1", "layer_heatmap");
  const [plot] = all(".lh-plot");
  const [values, projections] = all(".lh-pick");
  assert.equal(plot.dataset.steps, String(trace.steps.length));
  assert.equal(plot.dataset.view, "rank normed", "it opens on the picture that says most");
  for (const [value, of] of Object.entries(VALUES))
    for (const [projection, prefix] of [
      ["normed", "normed_"],
      ["raw", ""],
    ]) {
      await choose(values, value);
      await choose(projections, projection);
      assert.equal(plot.dataset.view, `${value} ${projection}`);
      const said = prefix ? "with the final norm applied (" : "as DoLa projects it (";
      assert.ok(root.textContent.includes(said), projection);
      const [{ z }] = plot.data;
      for (const [layer, row] of z.entries())
        for (const [step, number] of row.entries()) {
          const expected = of(trace.steps[step].detail.layers[layer][prefix + value]);
          // Entropies come from the summary, which has fewer digits.
          near(number, expected, value === "entropy" ? 1e-2 * expected + 1e-4 : 1e-9);
        }
    }
  assert.ok(text(".lh-warn").includes("Not advised for small models"));
});

test("layers: a step has its column, and what the contrast made of it", async () => {
  const { all, text, select, trace } = await drawn("dola-1", "layer_heatmap");
  await select(11);
  const { emit, detail } = trace.steps[11];
  assert.equal(all(".lh-table tbody tr").length, detail.layers.length);
  assert.equal(text(".lh-table tr.on th"), String(detail.premature_layer));
  assert.ok(text(".lh-contrast").includes(`${detail.kept} of 4,096`));
  const lists = [detail.final_top, detail.contrast_top];
  const framed = lists.filter((list) => list.some(([id]) => id === emit[0]));
  assert.equal(all(".lh-contrast li.on").length, framed.length);
});

test("layers: a column shows how the chosen word grew, the last layer first", async () => {
  const { all, texts, select, trace } = await drawn("dola-1", "layer_heatmap");
  await select(11);
  const { emit, detail } = trace.steps[11];
  const layers = detail.layers.toReversed();
  const chances = layers.map(({ normed_logprob }) => Math.exp(normed_logprob));
  const most = Math.max(...chances);
  const bars = all(".lg-bar i").map(({ style }) => Number.parseFloat(style.width));
  assert.equal(bars.length, layers.length);
  for (const [i, chance] of chances.entries()) near(bars[i], (100 * chance) / most, 0.1);
  assert.ok(new Set(bars).size > 5);
  assert.deepEqual(
    texts(".lg-row.base .lg-layer").concat(texts(".lg-row.on .lg-layer")),
    [detail.premature_layer, layers.length - 1].map(String),
  );
  const named = layers.flatMap(({ normed_top: [[id]] }, i) =>
    id === layers[i + 1]?.normed_top[0][0] ? [] : trace.pieces[id].trim(),
  );
  assert.deepEqual(texts(".lg-word").filter(Boolean), named.filter(Boolean));
  assert.equal(
    all(".lg-word.hit").length > 0,
    layers.some((l) => l.normed_top[0][0] === emit[0]),
  );
});

test("panels: all stay open until nobody needs all of them", () => {
  const panels = new Panels("Questions", () => {});
  for (const name of ["why", "more"]) panels.add(name, name, el("p"));
  panels.open("why");
  const hidden = () => [...panels.node.querySelectorAll(".dp-panel")].map((node) => node.hidden);
  const [onPaper, inList] = [panels.unfold(), panels.unfold()];
  inList();
  assert.deepEqual(hidden(), [false, false]);
  onPaper();
  assert.deepEqual(hidden(), [false, true]);
});

test("layers: a token is text wherever it is drawn", async () => {
  const trace = structuredClone(await open("dola-1"));
  const evil = "<img src=x onerror=hit()><b>b</b>";
  for (const id of Object.keys(trace.pieces)) trace.pieces[id] = evil;
  const shown = (await drawn("dola-1")).run.source.shown;
  const { root, all, text, select } = await stageOf({ trace, shown }, "strip", "layer_heatmap");
  await select(3);
  assert.match(all(".lh-plot")[0].data[0].text[2][2], /&lt;img/);
  assert.ok(text(".lh-column").includes("<img"));
  assert.equal(root.querySelectorAll("img, .lh-column b").length, 0);
});

test("layers: the map grows with the steps", async () => {
  const { all, rewind, trace } = await drawn("dola-1", "layer_heatmap");
  for (const count of [3, 4, trace.steps.length]) {
    await rewind(count);
    assert.equal(all(".lh-plot")[0].dataset.steps, String(count));
    assert.ok(all(".lh-plot")[0].data[0].z.every((row) => row.length === count));
  }
});

for (const name of ["prompt_lookup-1", "early_exit-1", "speculative-1", "mtp-1"])
  test(`${name}: every round is drawn, and the badge says what was checked`, async () => {
    const { all, text, trace } = await drawn(name, "draft_timeline");
    const { steps } = trace;
    assert.equal(all(".dt-row").length, steps.length);
    const drafted = sum(steps.map(({ detail }) => detail.tokens.length));
    const finals = steps.filter(({ detail }) => detail.final_source !== "ended").length;
    assert.equal(all(".dt-lane .dt-tile").length, drafted + finals);
    const { checked, parting } = steps.at(-1).detail.report;
    assert.equal(text(".dt-badge").includes("Lossless"), Boolean(checked && !parting));
    const pace = (sum(steps.map(({ emit }) => emit.length)) / steps.length).toFixed(2);
    assert.ok(text(".dt-cost").includes(`tokens per pass ${pace}`), text(".dt-cost"));
  });

test("drafts: the bars of a round name the extra heads, and no second model", async () => {
  const { text, select, trace } = await drawn("mtp-1", "draft_round");
  const step = trace.steps.find(({ detail }) => detail.tokens.length);
  await select(step.index);
  assert.match(text(".dt-pass"), /extra heads/);
  assert.doesNotMatch(text(".dt-pass"), /draft model/);
});

test("drafts: a click on a kept guess shows that word, and a refused one is no word of the text", async () => {
  const { all, texts, run, select, trace } = await drawn("speculative-1", "strip", "draft_round");
  const { index, detail } = trace.steps.find(
    ({ detail: { tokens } }) =>
      tokens.filter(({ status }) => status === "accepted").length > 1 &&
      tokens.some(({ status }) => status === "rejected"),
  );
  await select(index);
  await click(all(".pb-row.dt-accepted")[1]);
  assert.deepEqual([run.selected, run.offset], [index, 1]);
  const word = trace.pieces[detail.tokens[1].token_id].trim();
  assert.deepEqual(texts(".pb-row.on .pb-word"), [word]);
  assert.deepEqual(
    texts(".dp-tok.sel").map((text) => text.replace("✓", "")),
    [word],
  );
  await click(all(".pb-row.dt-rejected")[0]);
  assert.deepEqual([run.selected, run.offset], [index, 1]);
});

test("drafts: a chosen round is marked, later ones are dim, and tiles and table say their numbers", async () => {
  const { root, all, text, trace } = await drawn("early_exit-1", "draft_timeline");
  const second = all(".dt-number").find((no) => /^Round 2,/.test(no.getAttribute("aria-label")));
  await click(second);
  assert.equal(all(".dt-row.sel").length, 1);
  assert.equal(all(".dt-row.later").length, trace.steps.length - 2);
  const { exit_layer, tokens } = trace.steps[1].detail;
  assert.match(
    text(".dt-round"),
    new RegExp(
      `^Round 2\\. Layer ${exit_layer} of \\d+ proposed ${tokens.length} tokens? in .*main model checked them in one pass \\([\\d.]+ m?s\\)`,
    ),
  );
  all(".dt-lane .dt-tile")[0].dispatchEvent(new Event("focus"));
  assert.match(text(".dt-readout"), /main model's p =/);
  await unfold(root.querySelector(".dt-more"));
  assert.equal(all(".dt-more tbody tr").length, all(".dt-lane .dt-tile").length);
});

test("drafts: a round names the threshold that the rounds before it tuned", async () => {
  const { all, run, select, text } = await drawn("speculative-1", "draft_timeline");
  await select(0);
  assert.doesNotMatch(text(".dt-round"), /tuned/);
  run.steps[1].detail.threshold = 0.4321;
  await click(all(".dt-number")[1]);
  assert.match(text(".dt-round"), /below a probability of 43\.2 %, tuned to the rounds so far/);
});

test("drafts: a copy is joined to its source", async () => {
  const { all, select, trace } = await drawn("prompt_lookup-1", "draft_timeline");
  const step = trace.steps.find(({ detail }) => detail.match);
  await select(step.index);
  assert.match(all(".dt-arc path")[0].getAttribute("d"), /^M[\d.]+,[\d.]+ C/);
  const [size] = step.detail.match;
  assert.equal(all(".dt-arc .src").length, size);
  assert.equal(all(".dt-arc .dst").length, size);
});

const OUTSIDE = seenFromOutside("rolled_back()", "beside()", "elsewhere()", "plain(1000)");
const passes = (call) => stageOf(OUTSIDE[call], "scrub", "forward_timeline");

test("passes: every pass is a row, and what was taken back is struck out", async () => {
  const { root, all, text, texts } = await passes("rolled_back()");
  assert.equal(all("[role=listitem]").length, 8);
  assert.equal(
    text(".ft-summary"),
    "5 tokens in 8 forward passes; 3 tokens were taken back in 2 rollbacks.",
  );
  assert.ok(root.textContent.includes("We only see what the method sends"));
  assert.deepEqual(texts(".ft-tile.gone"), ["·e", "·f", "·i"]);
  const back = all("[role=listitem]").filter((row) => row.querySelector(".ft-lane .gone"));
  assert.deepEqual(
    back.map((row) => row.querySelector(".ft-number").textContent),
    ["4", "7"],
  );
  assert.deepEqual(
    texts(".ft-tile.new"),
    [..."defghijk"].map((letter) => `·${letter}`),
  );
  assert.ok(texts("[role=listitem]")[3].includes("read 1 token, 5 stored in the cache"));
  assert.ok(text(".ft-gaps").includes("candidates at 1 of 7 steps"));
  await unfold(root.querySelector(".ft-more"));
  const cells = [...all(".dp-table tbody tr")[3].querySelectorAll("td")].map((c) =>
    c.textContent.trim(),
  );
  assert.deepEqual(cells, ["4", "4", "its own", "1", "1", "5", "6", "e f", "", "", "1.00"]);
});

test("passes: a step is chosen by its row, and keys go on from there", async () => {
  const { all, text, texts } = await passes("rolled_back()");
  await click(all("[role=listitem]")[3]);
  assert.deepEqual(texts(".ft-row.sel .ft-number"), ["4", "5"]);
  assert.equal(all("[role=listitem].later").length, 3);
  assert.match(
    text(".ft-step"),
    /Forward passes 4 and 5 read 1 \+ 1 tokens of its text\. 2 tokens were taken back after pass 4/,
  );
  await press(all(".ft-row.sel .ft-number").at(-1), "ArrowDown");
  assert.deepEqual(texts(".ft-row.sel .ft-number"), ["6"]);
  await press(all(".ft-box")[0], "End");
  assert.deepEqual(texts(".ft-row.sel .ft-number"), ["8"]);
  assert.equal(all('.ft-number[tabindex="0"]').length, 1);
  await click(all("button").find((b) => b.getAttribute("aria-label") === "Previous word"));
  assert.deepEqual(texts(".ft-row.sel .ft-number"), ["7"]);
});

test("passes: those that read another text, and a run without any, say so", async () => {
  const other = await passes("beside()");
  assert.equal(
    other.text(".ft-summary"),
    "3 tokens in 5 forward passes; none was taken back. 2 tokens that had been written are not in" +
      " the text that was returned. 1 of the passes read another text than the run's own." +
      " Up to 2 rows were read at once; what is followed here is the first.",
  );
  assert.deepEqual(other.texts(".aside .ft-number"), ["2", "4"]);
  assert.equal(other.all(".aside .ft-lane .other").length, 1);
  assert.ok(other.texts("[role=listitem]")[0].includes("no pass"));
  assert.ok(other.text(".ft-gaps").includes("what 1 pass read, as it was given no token ids"));
  assert.ok(
    other.text(".ft-gaps").includes("when a token was final, as none was handed to a streamer"),
  );
  const none = await passes("elsewhere()");
  assert.equal(none.text(".ft-summary"), "2 tokens in 0 forward passes; none was taken back.");
  assert.ok(none.text(".ft-gaps").includes("any forward pass"));
  assert.equal(none.all("[role=listitem]").length, 1);
});

test("passes: of a long run those near the chosen step are drawn", async () => {
  const { all, texts, rewind } = await passes("plain(1000)");
  const button = (name) => all("button").find((one) => one.textContent === name);
  assert.deepEqual(texts(".ft-row.sel .ft-number"), ["1000"]);
  assert.equal(all("[role=listitem]").length, 160);
  await click(button("840 ↑ earlier passes"));
  assert.deepEqual(texts(".ft-row.sel .ft-number"), ["840"]);
  assert.equal(all("[role=listitem]").length, 160);
  assert.ok(all("button").some((one) => !one.hidden && one.textContent.includes("↓ later")));
  for (const count of [0, 1, 2, 24]) {
    await rewind(count);
    assert.equal(all("[role=listitem]").length, count);
  }
});

test("what to look at: a run's hint, and where it has none or is covered, a sentence in a panel alone", () => {
  const shown = (run, place = "dp-panel") => {
    const body = el("div", {});
    const card = el("section", {}, body);
    el("div", { class: place }, card);
    createLookView().mount(body).update(run);
    return card.hidden ? null : card.textContent;
  };
  const hint = { shows: "Look here." };
  assert.equal(shown(hint), "Look here.");
  assert.equal(shown(hint, "dp-main"), "Look here.");
  assert.match(shown({ shows: "" }), /^This run has no hint/);
  assert.match(shown(createCoveredRun(hint)), /when you have left the guessing/);
  for (const run of [{}, createCoveredRun(hint)]) assert.equal(shown(run, "dp-main"), null);
});
