// The text of a run: its words, the lines under them, and what other settings would change.
import assert from "node:assert/strict";
import { test } from "node:test";
import { click, drawn, press } from "./stage.mjs";

test("a legend of three words says what the lines mean, with the bits as a hint", async () => {
  const { all, texts } = await drawn("sampling-1", "strip");
  assert.deepEqual(texts(".tx-legend .dp-tok:not(.special)"), ["some", "strong", "extreme"]);
  assert.equal(all(".tx-legend .s2")[0].getAttribute("title"), "3–6 bits");
});

test("tokens of one word are joined, and those of different words are not", async () => {
  const { all, run } = await drawn("sampling-2", "strip");
  const nodes = all(".dp-strip .dp-tok");
  const pieces = run.tokens[0].map(({ id }) => run.pieces[id]);
  const inside = pieces.map(
    (piece, i) => i > 0 && /\w$/.test(pieces[i - 1]) && /^'?\w/.test(piece),
  );
  assert.ok(inside.includes(true), "a word of several tokens is there");
  assert.deepEqual(
    nodes.slice(0, pieces.length).map((node) => node.classList.contains("joined")),
    inside,
  );
});

test("the first word that other settings change is struck, the new one is after it, the rest is grey", async () => {
  const { all, run, preview } = await drawn("sampling-1", "strip");
  const first = { step: 2, token_id: run.steps[5].emit[0], known: false };
  await preview({ step: 4, rows: [], setting: "0.42", first, stale: false });
  assert.equal(all(".gone, .tx-new, .late").length, 0, "nothing is marked before it is known");
  await preview({
    step: 4,
    rows: [],
    setting: "0.42",
    first: { ...first, known: true },
    stale: false,
  });
  assert.deepEqual(
    all(".dp-tok.gone").map((node) => node.dataset.step),
    ["2"],
  );
  const [word] = all(".tx-new");
  assert.equal(word.textContent, run.pieces[first.token_id].trim());
  assert.equal(word.previousElementSibling.dataset.step, "2");
  assert.equal(all(".dp-tok.late").length, run.tokens[0].length - 3);
  await preview(null);
  assert.equal(all(".gone, .tx-new, .late").length, 0);
});

/** Places in the text of the words that are selected. */
const selected = (all) =>
  all(".dp-strip .dp-tok").flatMap((node, i) => (node.classList.contains("sel") ? [i] : []));

test("a click on any word of a round shows that word, and arrow keys go on from it", async () => {
  const { all, text, run, trace } = await drawn("speculative-1", "strip", "scrub");
  const nodes = all(".dp-strip .dp-tok");
  const total = run.tokens[0].length;
  const { index, keep } = trace.steps.find(({ emit, keep }) => keep && emit.length > 2);
  await click(nodes[keep]);
  assert.deepEqual([run.selected, run.offset], [index, 0]);
  assert.deepEqual(selected(all), [keep]);
  assert.equal(text(".dp-scrub output"), `Word ${keep + 1} of ${total}`);
  await press(nodes[keep], "ArrowRight");
  assert.deepEqual(selected(all), [keep + 1]);
  await press(nodes[keep], "ArrowLeft");
  await press(nodes[keep], "ArrowLeft");
  assert.deepEqual(selected(all), [keep - 1]);
  await press(nodes[0], "End");
  assert.equal(text(".dp-scrub output"), `Word ${total} of ${total}`);
  await press(nodes[0], "Home");
  assert.deepEqual(selected(all), [0]);
});

test("a step that a link names shows the word that it decided", async () => {
  const { all, select, trace } = await drawn("speculative-1", "strip");
  const { index, keep, emit } = trace.steps.find(({ emit }) => emit.length > 2);
  await select(index);
  assert.deepEqual(selected(all), [keep + emit.length - 1]);
});

test("every word of a beam search leads to the depth that decided it", async () => {
  const { all, run } = await drawn("beam_search-1", "strip");
  for (const at of [1, 4, run.tokens[0].length - 1]) {
    await click(all(".dp-strip .dp-tok")[at]);
    assert.deepEqual([run.selected, run.offset], [at, null]);
    assert.deepEqual(selected(all), [at]);
  }
});

test("drafts: kept guesses, refused ones and the main model's words are told apart on the text", async () => {
  const { all, texts, run, trace } = await drawn("speculative-1", "strip");
  const drafted = (status) =>
    trace.steps.flatMap(({ detail }) => detail.tokens.filter((token) => token.status === status));
  assert.equal(all(".dp-strip .tx-kept").length, drafted("accepted").length);
  assert.equal(all(".dp-strip .tx-own").length, run.tokens[0].length - drafted("accepted").length);
  const refused = drafted("rejected").map(({ token_id: id }) => run.pieces[id]);
  assert.deepEqual(
    texts(".dp-strip .tx-refused"),
    refused.map((piece) => piece.trim() || "⏎"),
  );
  assert.equal(all(".dp-strip .tx-end").length, trace.steps.length);
  assert.deepEqual(texts(".tx-legend > :not([hidden])"), [
    "kept",
    "refused",
    "by the main model",
    "special token",
  ]);
});

test("drafts: the picture has the guesses of the word's round, and the words of every pass", async () => {
  const { all, text, texts, run, trace, select } = await drawn(
    "speculative-1",
    "strip",
    "draft_round",
    "draft_timeline",
  );
  const { index, keep, detail } = trace.steps.find((step) => step.keep && step.emit.length > 2);
  await click(all(".dp-strip .dp-tok")[keep + 1]);
  assert.equal(all(".pb-row").length, detail.tokens.length);
  assert.equal(text(".pb-row.on .pb-word"), run.pieces[detail.tokens[1].token_id].trim());
  const [main, draft] = all(".pb-row.on .pb-pair i").map((bar) =>
    Number.parseFloat(bar.style.width),
  );
  assert.ok(Math.abs(main - 100 * detail.tokens[1].p) < 1e-6);
  assert.ok(Math.abs(draft - 100 * detail.tokens[1].q) < 1e-6);
  const words = run.tokens[0].length;
  assert.equal(text(".dt-headline"), `${words} words in ${trace.steps.length} passes`);
  assert.deepEqual(
    texts(".dt-passes span"),
    trace.steps.map(({ emit }) => String(emit.length)),
  );
  await select(index + 1);
  assert.equal(all(".pb-row").length, trace.steps[index + 1].detail.tokens.length);
  await click(all(".dt-passes span")[0]);
  assert.equal(run.selected, 0);
});

test("watermark: words on and off the list are marked, and the line compares their count with chance", async () => {
  const { all, texts, root, run, trace } = await drawn(
    "watermark-1",
    "strip",
    "watermark_chance",
    "watermark",
  );
  const green = trace.steps.filter(({ detail }) => detail.scored && detail.is_green).length;
  const red = trace.steps.filter(({ detail }) => detail.scored && !detail.is_green).length;
  assert.deepEqual([all(".dp-strip .tx-on").length, all(".dp-strip .tx-off").length], [green, red]);
  assert.deepEqual(texts(".tx-legend > :not([hidden])"), ["● on the list", "○ off the list"]);
  const { verdict } = run.shown.at(-1).watermark;
  const [line] = root.querySelectorAll(".wc-line");
  const chance = Math.round((green + red) * verdict.chance);
  assert.match(
    line.getAttribute("aria-label"),
    new RegExp(`by chance: about ${chance}\\. This text: ${green}\\.`),
  );
  const place = (kind) => Number.parseFloat(all(`.wc-${kind}`)[0].style.left);
  assert.ok(place("chance") < place("needed") && place("needed") < place("text"));
});

test("contrastive: the selected word has an arc to the earlier word that each candidate is like", async () => {
  const { all, trace, select } = await drawn(
    "contrastive_search-1",
    "strip",
    "contrastive_pairs",
    "contrastive",
  );
  const { index, detail } = trace.steps.find(
    ({ index, detail }) => index > 4 && detail.chosen !== 0,
  );
  await select(index);
  assert.equal(all(".tx-arcs path").length, detail.options.length);
  assert.equal(all(".tx-arcs path.solid").length, 1);
  assert.equal(all(".tx-place").length, trace.prompt_ids.length);
  const winner = detail.options[detail.chosen];
  const rows = all(".pb-row");
  assert.equal(rows.length, detail.options.length);
  assert.equal(
    rows.findIndex((row) => row.classList.contains("on")),
    detail.chosen,
  );
  const width = (row, i) => Number.parseFloat(row.querySelectorAll(".pb-pair i")[i].style.width);
  const ratio = width(rows[detail.chosen], 0) / width(rows[detail.chosen], 1);
  assert.ok(Math.abs(ratio - winner.confidence / winner.degeneration_penalty) < 1e-6);
});

test("a copied draft has an arc to the place that it was copied from", async () => {
  const { all, trace, select } = await drawn("prompt_lookup-1", "strip");
  const copied = trace.steps.find(({ detail }) => detail.match);
  await select(copied.index);
  assert.equal(all(".tx-arcs path.solid").length, 1);
  await select(trace.steps.find(({ detail }) => !detail.match).index);
  assert.equal(all(".tx-arcs path").length, 0);
});

test("a thinking section is named, and the words that its budget forced are marked", async () => {
  const { all, texts, trace } = await drawn("greedy-smollm2-3", "strip");
  const [[{ start, end, forced }]] = trace.thinking.texts;
  assert.deepEqual(texts(".tx-phase"), ["Thinking", "Answer"]);
  const words = all(".dp-strip .dp-tok");
  const places = (name) => words.flatMap((node, i) => (node.classList.contains(name) ? [i] : []));
  const range = (from, to) => Array.from({ length: to - from }, (_, i) => from + i);
  assert.deepEqual(places("tx-thought"), range(start, forced));
  assert.deepEqual(places("tx-forced"), range(forced, end));
  assert.equal(all(".tx-phase")[1].nextSibling.nextSibling ?? null, words[end]);
  assert.match(words[forced].getAttribute("aria-label"), /forced by the thinking budget/);
  assert.deepEqual(texts(".tx-legend .dp-tok:not(.special)").slice(-2), [
    "thinking",
    "forced by the thinking budget",
  ]);
});
