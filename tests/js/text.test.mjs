// Tokens and numbers as the page writes them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { csv } from "../../playground/client/shell/steps_csv.mjs";
import {
  describeTreeNode as describeNode,
  shortenText,
} from "../../visualizers/beam_tree/words.mjs";
import {
  formatDuration,
  formatFixed,
  formatModelAndUsed,
  formatNumber,
  formatPercent,
  formatSetting,
  makeVisible,
  pluralText,
  tokenLabel,
  tokensText,
} from "../../visualizers/shared/text.mjs";
import { formatPValue } from "../../visualizers/watermark/p_value.mjs";
import { open } from "./traces.mjs";

test("what cannot be seen is shown, and a space inside words stays one", () => {
  assert.equal(makeVisible("a b\n\t\u00a0"), "a b⏎⇥⍽");
  assert.equal(makeVisible("\u200b\u202e\u0007"), "⟨U+200B⟩⟨U+202E⟩⟨U+0007⟩");
  assert.equal(makeVisible("<b>&amp;"), "<b>&amp;");
});

test("a token shows the spaces at its ends, or its number where no text is known", () => {
  const run = { pieces: { 1: "  pond ", 2: "a b", 3: "" } };
  assert.deepEqual(
    [1, 2, 3, 4].map((id) => tokenLabel(run, id)),
    ["··pond·", "a b", "", "#4"],
  );
  assert.equal(tokensText(run, [2, 1, 4]), "a b  pond #4");
});

test("percentages are as exact as they are large", () => {
  const cases = [
    [1, "100 %"],
    [0.99999, ">99.99 %"],
    [0.9996, "99.96 %"],
    [0.5, "50.0 %"],
    [0.0512, "5.12 %"],
    [0.000012, "0.0012 %"],
    [1e-9, "<0.0001 %"],
    [0, "0 %"],
  ];
  for (const [p, words] of cases) assert.equal(formatPercent(p), words);
});

test("the model's probability stands before the one that was used, and only where they differ", () => {
  assert.equal(formatModelAndUsed(0.129, 0.0846), "12.9 → 8.46 %");
  assert.equal(formatModelAndUsed(0.129, 0), "12.9 → 0 %");
  assert.equal(formatModelAndUsed(0.129, 0.12900001), "12.9 %");
});

test("no number is written as a zero that it is not", () => {
  const cases = [
    [-1.23456, 3, "−1.235"],
    [2, 1, "2.0"],
    [0, 3, "0.000"],
    [-0, 3, "0.000"],
    [-0.0002, 3, "−0.00020"],
    [0.0698, 2, "0.070"],
    [-1234.5, 1, "−1,234.5"],
    [0.0049, 2, "0.0049"],
    [-2.04e-9, 3, "−2.0 · 10⁻⁹"],
  ];
  for (const [x, digits, words] of cases) assert.equal(formatFixed(x, digits), words);
});

test("a number is as long as it needs to be, and a setting has all of its digits", () => {
  const cases = [
    [0, "0"],
    [0.00698, "0.0070"],
    [1.5, "1.5"],
    [12.345, "12.3"],
    [1234.5, "1,235"],
  ];
  for (const [x, words] of cases) assert.equal(formatNumber(x), words);
  assert.equal(formatSetting(-0.4255), "−0.4255");
  assert.equal(formatDuration(0.0123), "12 ms");
  assert.equal(formatDuration(1), "1.0 s");
});

test("one of a thing is not several", () => {
  assert.equal(pluralText(1, "1 token", "{n} tokens"), "1 token");
  assert.equal(pluralText(4046, "1 token", "{n} tokens"), "4,046 tokens");
  assert.equal(pluralText(0, "one text was", "{n} texts were"), "0 texts were");
});

test("a name is cut to its room, wide letters taking two places", () => {
  assert.equal(shortenText("pond", 4), "pond");
  assert.equal(shortenText("ponds", 4), "pon…");
  assert.equal(shortenText("日本語", 4), "日…");
});

test("a probability is said however small it is", () => {
  assert.equal(formatPValue(0.0123456), "0.012");
  assert.equal(formatPValue(0.000069), "6.9 · 10⁻⁵");
  assert.equal(formatPValue(2.34e-12), "2.3 · 10⁻¹²");
  assert.equal(formatPValue(0), "below 10⁻³⁰⁰");
});

test("a spreadsheet gets one row a step, and nothing that it would run", async () => {
  const trace = await open("greedy-1");
  const first = trace.steps[0].emit[0];
  const run = { ...trace, pieces: { ...trace.pieces, [first]: '=1+1,"x"' } };
  const text = csv(run);
  const lines = text.split("\n");
  // A line break in a token stays within its cell.
  assert.equal(text.match(/^\d+,1,\d+,/gm).length, trace.steps.length);
  assert.match(lines[0], /^step,sequence,keep,token_ids,text,model_logprob_nats,used_logprob_nats/);
  assert.ok(lines[1].includes(`,"'=1+1,""x""",`), lines[1]);
});

test("a node is read out with what decided about it", () => {
  const data = {
    token_id: 1,
    fate: "pruned",
    sum_logprobs: -3,
    score: -1.5,
    rank: 4,
    margin: -0.5,
    reason: "",
    penalised_by: [0],
    diversity_penalty: 0.5,
  };
  assert.equal(
    describeNode({ pieces: { 1: " pond" } }, { data, p: 0.25, model: 0.5, column: 1 }),
    "“·pond”, step 2, dropped, the model’s own probability 50.0 %, probability with your settings 25.0 %, sum of log-probabilities −3.00, score −1.50, rank 5, It missed the cut by 0.50, diversity −0.50 because group 1 took it first",
  );
});
