// Blind votes between two settings of a table: which texts are paired, and where the votes are.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./page.mjs";

const memory = new Map();
globalThis.localStorage = {
  getItem: (key) => memory.get(key) ?? null,
  setItem: (key, value) => memory.set(key, value),
};
const { createPrompt, listPairs, loadVotes, saveVotes } = await import(
  "../../playground/client/tabs/tune_votes.mjs"
);

const cell = (setting, prompt, seed, text) => ({ setting, prompt, seed, text, error: "" });
const CELLS = [
  cell(0, 0, 0, "a"),
  cell(0, 0, 1, "b"),
  cell(1, 0, 0, "c"),
  cell(1, 0, 1, "b"),
  cell(2, 0, 0, "greedy"),
  { ...cell(1, 1, 0, ""), error: "It failed." },
  cell(0, 1, 0, "d"),
];
const RANDOM = [true, true, false];
const about = (pairs) =>
  pairs.map(({ prompt, seed, texts }) => [prompt, seed, ...texts.map((t) => t.text)]);

test("texts of one prompt and seed are a pair, unless they are equal, failed or voted on", () => {
  const still = () => 0.4;
  assert.deepEqual(about(listPairs(CELLS, RANDOM, [0, 1], [], still)), [[0, 0, "a", "c"]]);
  const vote = { prompt: 0, seed: 0, pair: [1, 0], preferred: 0 };
  assert.deepEqual(listPairs(CELLS, RANDOM, [0, 1], [vote], still), []);
  // The only text of a setting without chance meets that of every seed.
  const found = about(listPairs(CELLS, RANDOM, [2, 0], [vote], still));
  assert.deepEqual(found.sort(), [
    [0, 0, "greedy", "a"],
    [0, 1, "greedy", "b"],
  ]);
});

test("chance chooses the sides", () => {
  const [pair] = listPairs(CELLS, RANDOM, [0, 1], [], () => 0.9);
  assert.deepEqual(
    pair.texts.map((text) => text.text),
    ["c", "a"],
  );
});

test("votes are kept by table, and only those of the latest ones", () => {
  const vote = { prompt: 0, seed: 0, pair: [0, 1], preferred: 1 };
  for (let i = 0; i < 12; i++) saveVotes(`table-${i}`, [vote]);
  assert.deepEqual(loadVotes("table-11"), [vote]);
  assert.deepEqual(loadVotes("table-2"), [vote]);
  assert.deepEqual(loadVotes("table-1"), []);
  memory.set("dp-tune-votes", "{");
  assert.deepEqual(loadVotes("table-11"), []);
});

test("a pair shows the prompt it answers; a conversation as one box for each message", () => {
  const [text] = createPrompt({ label: "", prompt: "Once <b>", messages: null }).all().slice(-1);
  assert.equal(text.textContent, "Once <b>");
  const messages = [
    { role: "system", content: "Be kind." },
    { role: "user", content: "Who is there?" },
  ];
  const boxes = createPrompt({ label: "Who is there?", prompt: null, messages })
    .all()
    .filter((node) => node.attributes.class?.startsWith("tn-turn"));
  assert.deepEqual(
    boxes.map((box) => [box.attributes.class, box.textContent]),
    [
      ["tn-turn tn-system", "SystemBe kind."],
      ["tn-turn tn-user", "UserWho is there?"],
    ],
  );
});
