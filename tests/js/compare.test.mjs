// The figures of a comparison as they are drawn: the verdict, and one bar per text and measure.
import assert from "node:assert/strict";
import { test } from "node:test";
import { paint, unfold } from "./stage.mjs";

const { verdictSentences } = await import("../../visualizers/compare/verdict.mjs");
const { createCompareFigures } = await import("../../visualizers/compare/view.mjs");

const LIKELIEST = {
  best: "B",
  rival: "A",
  worst: "C",
  best_perplexity: 1.42,
  worst_perplexity: 565.1,
  is_equal: false,
  repeats: null,
  in_spread: false,
};
const say = (likeliest, passes = null) => verdictSentences({ likeliest, passes }, "Storyteller");

test("the verdict never names the likeliest text without what speaks against it", () => {
  const [lead, caveat] = say(LIKELIEST);
  assert.match(lead, /Storyteller finds B likeliest and C least likely: perplexity 1.42 .* 565\./);
  assert.match(caveat, /not a better one/);
  const [, looping] = say({ ...LIKELIEST, repeats: 0.123 });
  assert.match(looping, /But B repeats itself most: 12\u00a0% /);
  const [, spread, last] = say({ ...LIKELIEST, in_spread: true });
  assert.match(spread, /lead of B over A is smaller than the spread/);
  assert.match(last, /not a better one/);
  // Of two texts the rival is the worst one.
  assert.match(say({ ...LIKELIEST, rival: "C" })[0], /finds B likelier than C/);
  assert.deepEqual(say({ ...LIKELIEST, is_equal: true }), [
    "Storyteller finds all texts equally likely.",
  ]);
  assert.deepEqual(say(null), []);
});

test("the verdict gives the costs in passes for the tokens that they wrote", () => {
  const least = { label: "A", passes: 12.4, tokens: 60 };
  const most = { label: "B", passes: 60, tokens: 60 };
  assert.deepEqual(say(null, { least, most, per_token: false }), [
    "A took the fewest passes per token: 12 for 60. B took the most: 60 for 60.",
  ]);
  assert.match(say(null, { least, most, per_token: true })[0], /one pass .* for every token/);
});

const cell = (mean, share, ...ticks) => ({ mean, share, ticks });
const tick = (value, share) => ({ value, share });
const seedFigures = (seed, word) => ({
  seed,
  rows: [
    ["A", "Greedy search", "float32", -0.35, 1.42, 0.1, 0.2, 0.3, 0.6, 0.8, 40, 40, 1, 2.5, "eos"],
    ["B", "Sampling", "float32", null, null, 0.1, 0.2, 0.3, 0.6, 0.8, 40, 40, 1, 2.5, "length"],
  ],
  curves: [{ name: "A", label: "A", pieces: ["a"], surprise: [1], entropy: [2] }],
  diff: [
    {
      a: "A",
      b: "B",
      parts: [
        ["equal", ["same"], ["same"]],
        ["other", [], [word]],
      ],
    },
  ],
});
const FIGURES = {
  base: "storyteller",
  base_held: "float32",
  columns: [
    ...["run", "strategy", "weights", "log-probability per token, nats", "perplexity"],
    ...["rep-2", "rep-3", "rep-4", "distinct-1", "distinct-2", "tokens", "forward passes"],
    ...["tokens per forward", "seconds", "end"],
  ],
  further: ["weights", "rep-2", "end"],
  measures: [
    {
      name: "perplexity",
      cells: [cell(1.42, 0.1, tick(1.4, 0.05), tick(1.5, 0.2)), cell(null, 0)],
    },
    { name: "repeats", cells: [cell(0.004, 0.5, tick(0.004, 0.5)), cell(0.25, 1, tick(0.25, 1))] },
  ],
  verdict: { likeliest: null, passes: null },
  seeds: [seedFigures("0", "first"), seedFigures("7", "second")],
};

function draw(figures) {
  const root = document.createElement("div");
  const folded = document.createElement("details");
  folded.open = false;
  const more = document.createElement("div");
  folded.append(more);
  const shown = createCompareFigures(root, more);
  shown.show(figures);
  return { root, folded, more, shown };
}

test("each text has one bar per measure, and a tick for every seed on it", () => {
  const { root } = draw(FIGURES);
  const [perplexity, repeats] = root.querySelectorAll("tbody tr");
  assert.equal(perplexity.querySelectorAll(".cmp-bar i").length, 1);
  assert.equal(perplexity.querySelector(".cmp-bar i").style.width, "10%");
  const lefts = [...perplexity.querySelectorAll(".cmp-bar u")].map((node) => node.style.left);
  assert.deepEqual(lefts, ["5%", "20%"]);
  const values = [...root.querySelectorAll(".cmp-value")].map((node) => node.textContent);
  assert.deepEqual(values, ["1.42", "not recorded", "0.4\u00a0%", "25\u00a0%"]);
  assert.equal(repeats.querySelectorAll(".cmp-bar i").length, 2);
  assert.equal(root.querySelectorAll(".cmp-key u").length, 1);
  // One seed has no spread to show.
  const alone = draw({ ...FIGURES, seeds: FIGURES.seeds.slice(0, 1) }).root;
  assert.equal(alone.querySelectorAll("u").length, 0);
});

test("further figures, differences and curves are drawn once they are opened, for the chosen seed", async () => {
  const { folded, more, shown } = draw(FIGURES);
  assert.equal(more.textContent, "");
  await unfold(folded);
  const rows = [...more.querySelectorAll("tbody th")].map((node) => node.textContent);
  // Those that have bars are not repeated.
  assert.deepEqual(rows, FIGURES.further);
  assert.match(more.textContent, /finished by itself.*reached the token limit/);
  assert.equal(more.querySelector("ins:not(.dp-legend *)").textContent, "first");
  shown.showSeed(1);
  assert.equal(more.querySelector(".cmp-diff ins").textContent, "second");
  await paint();
  assert.equal(more.querySelector(".cmp-plot").data.length, 2);
  shown.clear();
  assert.equal(more.textContent, "");
});
