// What a grammar did to a text: the ribbon, the sentences of the selected token, and what was not recorded.
import assert from "node:assert/strict";
import { test } from "node:test";
import { click, drawn, enter, paint, stageOf } from "./stage.mjs";
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

const SHARES = Array.from({ length: 12 }, (_, i) => 0.5 / 2 ** i);
const EXACT = {
  ...{ exact: true, count: 12, valid: 2.6e-7, divergence: 1.82, greedy: " 1." },
  texts: SHARES.map((own, i) => ({ text: ` ${i}.`, own, masked: SHARES[11 - i] })),
};

/** Draw a run with what was found of its grammar's texts. */
async function withTexts(found) {
  const seen = await underGrammar([PLAIN]);
  seen.run.grammar_texts = found;
  seen.stages.unfold(seen.stages.list[0]);
  await paint();
  return seen;
}

test("the table of a small grammar has both probabilities of every text, and names the finding", async () => {
  const { all, text, texts, root } = await withTexts(EXACT);
  assert.equal(
    text(".gt-finding"),
    "Among whole texts the model prefers “0.” (50.0 %). Removing tokens prefers “11.” (50.0 %).",
  );
  assert.equal(all(".gt-table tbody tr").length, 10);
  assert.deepEqual(texts("tbody tr:first-child .gt-number"), ["50.0 %", "0.024 %"]);
  assert.deepEqual(
    [".gt-own", ".gt-masked"].map((bar) => root.querySelector(`tbody tr ${bar}`).style.width),
    ["100%", `${(100 * SHARES[11]) / 0.5}%`],
  );
  assert.equal(text("tbody tr.on th"), " 1.greedy");
  assert.match(text(".gt-valid"), /one of these 12 texts with probability 2\.6 · 10⁻⁷\.$/);
  assert.match(text(".gt-texts"), /They differ by 1\.82 nats/);
  await click(root.querySelector(".gt-all"));
  assert.equal(all(".gt-table tbody tr").length, 12);
  assert.equal(root.querySelector(".gt-all"), null);
});

test("an estimate says its interval, how much its draws count, and what is missing", async () => {
  const { text, root } = await withTexts({
    ...{ exact: false, count: 30, valid: 0.013, low: 0.011, high: 0.015, effective: 77.4 },
    ...{ draws: 1000, texts: EXACT.texts.slice(0, 3) },
  });
  assert.match(text(".gt-valid"), /probability 0\.013\. The 95 % interval is 0\.011 to 0\.015\./);
  assert.match(text(".gt-valid"), /from 1,000 draws, which count like 77 equal ones\./);
  assert.match(text(".gt-texts"), /27 rarer texts are not shown\./);
  assert.doesNotMatch(text(".gt-texts"), /nats/);
  assert.equal(root.querySelector(".gt-all"), null);
});

test("both ways may prefer the same text, and another run shows no table", async () => {
  const same = { ...EXACT, texts: [{ text: " a.", own: 0.9, masked: 0.7 }], count: 1 };
  const { text, run, root, stages } = await withTexts(same);
  assert.equal(
    text(".gt-finding"),
    "Both ways prefer “a.”: 90.0 % among whole texts, 70.0 % when tokens are removed.",
  );
  run.grammar_texts = undefined;
  stages.unfold(stages.list[0]);
  await paint();
  assert.ok(root.querySelector(".gt-texts").hidden);
});

const { grammarView } = await import("../../playground/client/inspect/grammar_texts.mjs");
const { connectQuestions } = await import("../../playground/client/shell/questions.mjs");
const { store } = await import("../../playground/client/shell/page_state.mjs");

/** The page's view of a run, with the questions that it asked and a way to answer the last one. */
async function asked() {
  const { run } = await underGrammar([PLAIN]);
  const sent = [];
  const { receive } = connectQuestions((question) => sent.push(question));
  const root = document.createElement("div");
  const card = document.createElement("section");
  card.append(root);
  document.body.replaceChildren(card);
  const view = grammarView.mount(root, { select() {} });
  view.update(run, 0);
  const answer = async (values) => {
    receive(JSON.stringify({ id: sent.at(-1).id, ...values }));
    await new Promise(setImmediate);
    view.update(run, 0);
  };
  const [go, stop, say, ask] = [".gt-go", ".gt-stop", ".gt-say", ".gt-ask"].map((name) =>
    root.querySelector(name),
  );
  return { run, root, sent, answer, go, stop, say, ask, view };
}

test("a press says at once that the model reads, and the answer replaces the button", async () => {
  const { run, sent, answer, go, stop, say, ask, root } = await asked();
  assert.deepEqual([go.hidden, stop.hidden], [false, true]);
  click(go);
  assert.match(say.textContent, /^The model reads the allowed texts\./);
  assert.deepEqual([go.hidden, stop.hidden], [true, false]);
  await paint();
  // A replayed run is not known to the server, so its record goes along, without its steps.
  assert.equal(sent.at(-1).action, "grammar_texts");
  assert.deepEqual(sent.at(-1).trace.steps, []);
  let told = null;
  store.watch({ changed: (one) => (told = one) });
  await answer({ found: EXACT });
  assert.equal(told, run);
  assert.equal(run.grammar_texts.count, 12);
  assert.ok(ask.hidden);
  assert.equal(root.querySelectorAll(".gt-table").length, 1);
});

test("what is refused is said, and what is stopped ends on the server", async () => {
  const { sent, answer, go, stop, say, run, view } = await asked();
  await click(go);
  await answer({ error: "The 1000 draws count like 3 equal ones." });
  assert.match(say.textContent, /count like 3 equal ones/);
  assert.ok(!go.hidden);
  await click(go);
  const { press } = sent.at(-1);
  await click(stop);
  assert.deepEqual({ ...sent.at(-1), id: 0 }, { id: 0, action: "stop", press });
  assert.equal(say.textContent, "Stopped.");
  await click(go);
  const open = sent.at(-1);
  view.clear();
  assert.equal(sent.at(-1).action, "stop");
  assert.equal(sent.at(-1).press, open.press);
  assert.equal(run.grammar_texts, undefined);
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
