// What the page computes itself: it is listed, it is what Python computes, and nothing else is.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { csv } from "../../playground/client/shell/steps_csv.mjs";
import { signTest } from "../../playground/client/tabs/taste_votes.mjs";
import { rescore } from "../../visualizers/beam_tree/rescore.mjs";
import { findDivergence } from "../../visualizers/compare/divergence.mjs";
import { computePerplexity } from "../../visualizers/predict/game.mjs";
import { findDecidedToken } from "../../visualizers/shared/record.mjs";
import {
  isDrawing,
  LIST,
  listOf,
  namesOfNumbers,
  parts,
  partsOf,
  twinOf,
  untagged,
} from "./computed.mjs";
import { names, numbers, open } from "./traces.mjs";
import { ROOT } from "./types.mjs";

const ALL = await parts();
const NUMBERS = await namesOfNumbers();

const near = (a, b) => Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(b));

// Cells of a table, in which a line may break.
const cells = (text) =>
  [...text.matchAll(/("(?:[^"]|"")*"|[^,\n]*)(,|\n)/g)].map(([, cell]) => cell);

// A number may be spelled in two ways, as 1e-05 and 0.00001.
const isSame = (own, twin) => own === twin || (own !== "" && near(Number(own), Number(twin)));

// By function: what it makes of a recorded run is what its twin makes of it. Returns how much was compared.
const PARITY = {
  csv(trace, { csv: twin }) {
    const [own, other] = [csv(trace), twin].map(cells);
    assert.equal(own.length, other.length);
    for (const [i, cell] of own.entries()) assert.ok(isSame(cell, other[i]), `${cell} ${other[i]}`);
    return own.length;
  },
  rescore(trace, { rescored }) {
    for (const { penalty, ranking, end, rerun } of rescored) {
      const own = rescore(trace, penalty);
      assert.deepEqual([own.end, own.rerun], [end, rerun]);
      assert.deepEqual(
        own.lines.map(({ node, length }) => [node.node_id, length, node.sum_logprobs]),
        ranking.map(([id, length, sum]) => [id, length, sum]),
      );
      for (const [i, { score, divisor, length }] of own.lines.entries()) {
        assert.ok(near(score, ranking[i][3]));
        assert.ok(near(divisor, length ** penalty));
      }
    }
    return rescored.length;
  },
  computePerplexity({ steps }, { perplexity }) {
    const own = steps.flatMap((step) =>
      step.candidates
        .filter((c) => c.token_id === findDecidedToken(step))
        .map((c) => c.raw_logprob),
    );
    if (own.length) assert.ok(near(computePerplexity(own), perplexity));
    return own.length;
  },
  signTest(_trace, { signs }) {
    for (const [wins, trials, p] of signs) assert.ok(near(signTest(wins, trials), p));
    return signs.length;
  },
  async findDivergence(trace, { shared }) {
    const wholeOf = ({ prompt_ids, outputs }) => [...prompt_ids, ...outputs[0].token_ids];
    for (const [name, at] of Object.entries(shared))
      assert.equal(findDivergence(wholeOf(trace), wholeOf(await open(name))), at, name);
    return Object.keys(shared).length;
  },
};

// Compared with the engine by tests/playground/test_step_scores.py, as they need scores that no record has.
const DECISION = ["SAMPLING_FILTERS", "createStepScores", "decideStep", "softmax"];

test("the list of what the page computes is current", async () => {
  assert.equal(await readFile(new URL(LIST, ROOT), "utf8"), listOf(ALL), "run `npm run computed`");
});

test("whatever has a twin is compared with it", () => {
  const tagged = ALL.filter(twinOf);
  const compared = [...Object.keys(PARITY), ...DECISION];
  assert.deepEqual(tagged.map(({ name }) => name).sort(), compared.sort());
  for (const part of tagged) assert.ok(part.exported && !isDrawing(part), part.name);
});

for (const [name, compare] of Object.entries(PARITY))
  test(`${name} computes what its twin does`, async () => {
    let count = 0;
    for (const run of names) count += await compare(await open(run), numbers[run]);
    assert.ok(count >= names.length);
  });

test("no other function computes with a record's numbers", () => {
  assert.deepEqual(untagged(ALL, NUMBERS), []);
});

test("arithmetic is found where it stands, and what is none is left alone", () => {
  const found = (text) => untagged(partsOf("a.mjs", text), NUMBERS).length;
  for (const line of [
    "const a = (x) => Math.exp(x.logprob);",
    "const a = (d) => d.sum_logprobs - greedy.sum_logprobs;",
    "const a = (list) => list.reduce((sum, x) => sum + x, 0);",
    `const a = (d) => \`\${1 - d.p} of all\`;`,
    "const a = (step) => tokens / step.elapsed_s;",
    "function a(x) {\n  return x ** 2;\n}",
  ])
    assert.equal(found(line), 1, line);
  for (const line of [
    "const a = (x) => fixed(x.logprob);",
    "const a = (list) => list.sort((a, b) => b.sum_logprobs - a.sum_logprobs);",
    'const a = "max(0, p - q)";',
    `const a = (t) => \`min(1, p / q) is \${t.p}\`;`,
    "// p / q\nconst a = { p: -1 };",
    "const a = /^[p*]+$/;",
    "/**\n * As high as it is.\n * @drawing\n */\nconst a = (x) => HIGH * x.p;",
    "/** @computed a.b */\nexport const a = (x) => half(x.p);\nconst half = (p) => p / 2;",
  ])
    assert.equal(found(line), 0, line);
});
