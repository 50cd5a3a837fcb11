// Custom methods on the page: places in files, colours, what is known of a token from outside.
import assert from "node:assert/strict";
import { test } from "node:test";
import { isSameValue } from "../../playground/client/forms/settings.mjs";
import {
  keptTokenIds,
  listChoices,
  suggestedIndex,
} from "../../playground/client/runs/branch_choices.mjs";
import { highlightLines } from "../../playground/client/shell/python_highlighter.mjs";
import {
  finalScoreText,
  findFinalScore,
  toProbability,
} from "../../visualizers/shared/final_scores.mjs";
import { addStep, findDecidedIndex, findDecidedToken } from "../../visualizers/shared/record.mjs";
import "./page.mjs";

const { findFileLine } = await import("../../playground/client/forms/method_navigation.mjs");

test("a sentence names a file and a line, or neither", () => {
  const at = (sentence) => findFileLine(sentence);
  const path = "custom_generate/generate.py";
  assert.deepEqual(at(`${path}, line 12: invalid syntax.`), { path, line: 12 });
  assert.deepEqual(at("custom_generate/deep/own.py, line 3: KeyError: 'a'."), {
    path: "custom_generate/deep/own.py",
    line: 3,
  });
  assert.equal(at("The method ran past 120 seconds and was ended."), null);
});

test("colours change nothing of what Python says", () => {
  const text = [
    "def rule(x):  # 'no string'",
    '    """Two',
    '    lines: return 1"""',
    "    return f'a{x}\\'b' if x is not None else 1.5e-3",
    "",
    'open = "never closed',
    "",
  ].join("\n");
  const lines = highlightLines(text);
  const joined = lines.map((line) => line.map(([, words]) => words).join("")).join("\n");
  assert.equal(joined, text);
  const kindOf = (words) => lines.flat().find(([, part]) => part === words)?.[0];
  assert.deepEqual(
    ["def", "rule", "# 'no string'", '    lines: return 1"""', "None", "1.5e-3", "open"].map(
      kindOf,
    ),
    ["key", "name", "comment", "string", "value", "number", ""],
  );
});

test("arguments are the same in any order and with any spaces", () => {
  assert.ok(isSameValue('{"tau": 2.0, "n": [1]}', '{"n":[1],"tau":2}'));
  assert.ok(!isSameValue('{"tau": 2}', '{"tau": 3}'));
  assert.ok(!isSameValue('{"tau": 2}', ""));
  assert.ok(!isSameValue('{"tau": 2', '{"tau": 2}'));
});

const shown = (count) => ({
  text: {
    p: Array(count).fill(null),
    used: Array(count).fill(null),
    bits: Array(count).fill(null),
  },
  candidates: { raw: [0.5], processed: [0.5] },
});
const step = (index, keep, emit, kind = "forward", candidates = []) => ({
  index,
  sequence: 0,
  keep,
  emit,
  candidates,
  stages: [],
  detail: kind && { kind },
});
const read = (logprob, rank) => ({ logprob, rank, entropy: 1, top: [[9, 0.5]] });

function runOf(...steps) {
  /** @type {any} */
  const run = {
    steps: [],
    shown: [],
    tokens: [],
    texts: [],
    eos_token_ids: [],
    prompt_ids: [1],
    pieces: { 7: " so" },
  };
  for (const one of steps) addStep(run, one, shown(one.emit.length));
  return run;
}

test("the candidates of a step seen from outside are those of its first token", () => {
  assert.deepEqual(
    [findDecidedIndex(step(0, 0, [5, 6])), findDecidedIndex(step(0, 0, [5, 6], "draft"))],
    [0, 1],
  );
  assert.deepEqual(
    [findDecidedIndex(step(0, 0, [])), findDecidedToken(step(0, 0, []))],
    [-1, undefined],
  );
  const run = runOf(
    step(0, 0, [4]),
    step(1, 1, [5, 6], "forward", [{ token_id: 5 }, { token_id: 8 }]),
  );
  // Whoever continues from it with another candidate keeps what stood before the first.
  assert.deepEqual(keptTokenIds(run, run.steps[1], null), [4]);
  run.shown[1].candidates = { raw: [0.5, 0.2], processed: [0.5, 0.2] };
  assert.equal(suggestedIndex(run.steps[1], listChoices(run, run.steps[1]), null), 1);
});

test("what is known from outside is of a token that stands, once the text has ended", () => {
  const run = runOf(step(0, 0, [5, 6]), step(1, 1, [7]));
  assert.equal(findFinalScore(run, run.steps[1], 0), null);
  run.outputs = [{ token_ids: [5, 7] }];
  run.emitted = [[read(Math.log(0.25), 2), read(null, 999)]];
  assert.equal(findFinalScore(run, run.steps[0], 0).rank, 2);
  assert.equal(findFinalScore(run, run.steps[0], 1), null, "it was taken back");
  const found = findFinalScore(run, run.steps[1], 0);
  assert.equal(found.id, 7);
  assert.match(finalScoreText(run, found), /gives “·so” 0 %, place 1,000: read from outside/);
  assert.equal(toProbability(Math.log(0.25)), 0.25);
});
