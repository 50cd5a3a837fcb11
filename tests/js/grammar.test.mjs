// What a grammar did to a text: the ribbon, the sentences of the selected token, and what was not recorded.
import assert from "node:assert/strict";
import { test } from "node:test";
import { click, drawn, enter, stageOf } from "./stage.mjs";
import { open, recorded } from "./traces.mjs";

const PLAIN = {
  ...{ allowed: 0.8, wanted: null, wanted_p: null, fits: "", expected: "" },
  ...{ forced: false, may_end: false, odd_split: false },
};

/** Draw a run of the gallery as if a grammar had acted on its first tokens. */
async function underGrammar(tokens, known = tokens.length) {
  const run = structuredClone(recorded(await open("greedy-1")));
  const [{ token_ids: ids }] = run.trace.outputs;
  const all = ids.map((_, at) => tokens[at] ?? PLAIN);
  const hardest = known ? 1 : null;
  run.trace.grammar = [{ tokens: all, known, log_allowed: -3.25, hardest }];
  return { ...(await stageOf(run, "strip", "grammar")), ids };
}

const labels = (all) => all(".gr-tok").map((node) => node.getAttribute("class"));

test("without a grammar there is no card", async () => {
  const { root } = await drawn("greedy-1", "grammar");
  assert.ok(root.querySelector(".dp-v-grammar").hidden);
});

test("the ribbon shows what was allowed, forced, cut oddly, and where the text may end", async () => {
  const { all, root } = await underGrammar([
    PLAIN,
    { ...PLAIN, allowed: 0.004, forced: true },
    { ...PLAIN, allowed: 0.3, odd_split: true },
    { ...PLAIN, allowed: null, may_end: true },
  ]);
  assert.ok(!root.querySelector(".dp-v-grammar").hidden);
  const [first, second, third, fourth] = labels(all);
  assert.equal(first, "gr-tok gr-0");
  assert.equal(second, "gr-tok gr-3 gr-forced");
  assert.equal(third, "gr-tok gr-1 gr-odd");
  assert.equal(fourth, "gr-tok gr-unknown gr-end");
});

test("one sentence says where the grammar pushed hardest", async () => {
  const { text, trace, ids } = await underGrammar([PLAIN, { ...PLAIN, allowed: 0.004, wanted: 3 }]);
  const word = trace.pieces[ids[1]].trim();
  assert.ok(text(".gr-push").startsWith(`The grammar pushed hardest at “${word}”: `));
  assert.match(text(".gr-push"), /0\.4\d? %|0\.40 %/);
  assert.match(text(".gr-push"), /At 1 token the model wanted something else\.$/);
});

test("the selected token says what the model wanted and what was expected", async () => {
  const seen = await underGrammar([
    { ...PLAIN, wanted: 0, wanted_p: 0.6, fits: "b", expected: "“a”", forced: true },
    { ...PLAIN, allowed: null, may_end: true, odd_split: true },
    { ...PLAIN, forced: true, may_end: true },
  ]);
  const { trace, select, text } = seen;
  const other = Number(Object.keys(trace.pieces).find((id) => !trace.eos_token_ids.includes(+id)));
  seen.run.grammar[0].tokens[0].wanted = other;
  await select(0);
  assert.match(
    text(".gr-say"),
    /^The model wanted “.+” \(60\.0 %\)\. After “b” the grammar expected/,
  );
  assert.match(text(".gr-say"), /No other text could follow here\.$/);
  await select(1);
  assert.match(text(".gr-token"), /was not recorded at this token/);
  assert.match(text(".gr-say"), /^The text may end here\. The tokenizer usually cuts/);
  await select(2);
  assert.equal(text(".gr-say"), "The text must end here.");
});

test("a token of the ribbon selects its step", async () => {
  const { all, run } = await underGrammar([PLAIN]);
  all(".gr-tok")[2].dispatchEvent(new Event("click"));
  assert.equal(run.selected, run.tokens[0][2].step);
});

test("nothing is made up where no step recorded a probability", async () => {
  const unknown = { ...PLAIN, allowed: null };
  const count = recorded(await open("greedy-1")).trace.outputs[0].token_ids.length;
  const { text } = await underGrammar(Array(count).fill(unknown), 0);
  assert.equal(text(".gr-push"), "How much the grammar had to push was not recorded.");
  assert.doesNotMatch(text(".dp-v-grammar"), /ln Z/);
});

const { GrammarField } = await import("../../playground/client/forms/grammar_field.mjs");
const PARAM = { name: "structured_outputs", label: "Structured output", help: "", kind: "grammar" };

/** A field that is answered by a function, with the questions that it asked. */
function checkedBy(answer) {
  const asked = [];
  const field = new GrammarField(
    { ...PARAM, value: "", optional: true, term: null },
    "g",
    (about) => {
      asked.push(about);
      return Promise.resolve(answer(about.text));
    },
  );
  document.body.replaceChildren(field.box);
  return { field, asked };
}

test("what is typed is checked, and the reason is shown and taken back", async () => {
  const { field, asked } = checkedBy((text) =>
    text === "{" ? { refused: "Line 1: it is not valid JSON." } : { begins: "a digit" },
  );
  await enter(field.input, "{");
  assert.deepEqual(
    [field.answer.textContent, field.answer.hidden],
    ["Line 1: it is not valid JSON.", false],
  );
  assert.equal(field.input.getAttribute("aria-invalid"), "true");
  await enter(field.input, '{"regex": "[0-9]"}');
  assert.equal(field.answer.textContent, "This can be used. A text begins with a digit.");
  assert.equal(field.input.getAttribute("aria-invalid"), "false");
  await enter(field.input, " ");
  assert.ok(field.answer.hidden);
  assert.equal(asked.length, 2);
  assert.ok(asked.every(({ press }) => press && press === asked[0].press));
});

test("every example is filled in as JSON with one kind of grammar, and checked", async () => {
  const { field, asked } = checkedBy(() => ({ begins: "a digit" }));
  for (const button of field.box.querySelectorAll(".f-examples button")) {
    await click(button);
    const [kind, ...more] = Object.keys(JSON.parse(field.value));
    assert.ok(["choice", "regex", "json", "grammar"].includes(kind) && !more.length);
  }
  assert.equal(asked.length, 4);
});
