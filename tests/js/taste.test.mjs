// A blind taste test: pairs of chance, and what votes come to.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  countLess,
  drawPairs,
  PAIRS_PER_ROUND,
  rankStrategies,
  shuffleList,
  shuffleSides,
  signTest,
} from "../../playground/client/tabs/taste_votes.mjs";

// Numbers of chance that are the same every time.
function chance(seed = 1) {
  let x = seed;
  return () => {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    return x / 2 ** 32;
  };
}

const written = (strategy, more = {}) => ({
  strategy,
  params: {},
  text: ` by ${strategy}`,
  perplexity: 2,
  rep_3: 0,
  tokens: 10,
  ...more,
});
const NAMES = ["greedy", "beam_search", "sampling", "contrastive_search"];
const PROMPTS = Array.from({ length: 24 }, (_, i) => ({
  prompt: `prompt ${i}`,
  texts: NAMES.map((name) => written(name)),
}));

test("a round has ten pairs of ten prompts, no text beside itself, every pair of ways", () => {
  for (const seed of [1, 2, 3]) {
    const pairs = drawPairs(PROMPTS, chance(seed));
    assert.equal(pairs.length, PAIRS_PER_ROUND);
    assert.equal(new Set(pairs.map(({ prompt }) => prompt)).size, PAIRS_PER_ROUND);
    const ways = pairs.map(({ texts }) =>
      texts
        .map((w) => w.strategy)
        .sort()
        .join(),
    );
    assert.equal(new Set(ways).size, 6);
    assert.ok(pairs.every(({ texts: [a, b] }) => a.strategy !== b.strategy));
  }
});

test("two ways that wrote the same are no pair", () => {
  const same = [{ prompt: "x", texts: NAMES.map((name) => written(name, { text: " same" })) }];
  assert.deepEqual(drawPairs(same, chance()), []);
});

test("either side is as likely", () => {
  const random = chance();
  const pair = { prompt: "x", texts: [written("greedy"), written("sampling")] };
  let left = 0;
  for (let i = 0; i < 1000; i++)
    left += shuffleSides(pair, random).texts[0].strategy === "greedy" ? 1 : 0;
  assert.ok(left > 430 && left < 570, String(left));
  assert.deepEqual(shuffleList([1, 2, 3, 4], random).sort(), [1, 2, 3, 4]);
});

const VOTES = [
  {
    prompt: "a",
    vote: 0,
    texts: [
      written("greedy", { perplexity: 2, tokens: 8 }),
      written("sampling", { perplexity: 9 }),
    ],
  },
  {
    prompt: "b",
    vote: 1,
    texts: [written("greedy", { perplexity: 3 }), written("sampling", { perplexity: 8 })],
  },
  { prompt: "c", vote: null, texts: [written("greedy", { perplexity: 1 }), written("sampling")] },
  { prompt: "d", vote: 1, texts: [written("greedy", { perplexity: null }), written("sampling")] },
];

test("votes are counted by what the preferred text had less of, and by strategy", () => {
  assert.deepEqual(countLess(VOTES, "perplexity"), { less: 1, of: 2 });
  assert.deepEqual(countLess(VOTES, "tokens"), { less: 1, of: 1 });
  assert.deepEqual(countLess(VOTES, "rep_3"), { less: 0, of: 0 });
  assert.deepEqual(
    rankStrategies(VOTES, (w) => w.strategy),
    [
      { name: "sampling", won: 2, lost: 1, even: 1 },
      { name: "greedy", won: 1, lost: 2, even: 1 },
    ],
  );
});

test("the sign test is exact", () => {
  assert.equal(signTest(0, 0), 1);
  assert.equal(signTest(5, 10), 1);
  assert.equal(signTest(10, 10), 2 / 1024);
  assert.equal(signTest(0, 10), 2 / 1024);
  assert.equal(signTest(8, 10), 112 / 1024);
});
