// The text of a run: its words, the lines under them, and what other settings would change.
import assert from "node:assert/strict";
import { test } from "node:test";
import { drawn } from "./stage.mjs";

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
