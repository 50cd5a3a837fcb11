// Settings compared: what differs between a form and a run, which preset a form holds, and an archive's bytes.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  changedValues,
  changesSentence,
  describeDifferences,
  findPreset,
  formFromPreset,
  isSameValue,
} from "../../playground/client/forms/settings.mjs";
import { setDeclaration } from "../../playground/client/shell/spec.mjs";
import { createZip } from "../../playground/client/shell/zip.mjs";

const PARAMS = [
  { name: "temperature", label: "Temperature", value: 1 },
  { name: "top_k", label: "Top-k", value: 50 },
  { name: "min_p", label: "Min-p", value: null },
  { name: "plain_run", label: "Plain run", value: false },
  { name: "bad_words_ids", label: "Ban", value: "" },
];
const COOL = { name: "Cool", prompt: "Once", seed: 0, model: "m", params: { temperature: 0.5 } };
const STRATEGY = { name: "s", model: "m", assistant: "", params: [0, 1, 2, 3, 4], presets: [COOL] };
setDeclaration({
  params: PARAMS,
  strategies: [STRATEGY],
  models: [
    { name: "m", title: "Model M · 1 M · Apache" },
    { name: "n", title: "Model N · 2 M · MIT" },
  ],
});
const RUN = formFromPreset({ ...STRATEGY, params: PARAMS }, COOL);
const asked = (changes = {}) => {
  const { values, ...rest } = RUN;
  return { ...rest, seed: 0, params: { ...values, min_p: "", ...changes } };
};

test("values of a control mean the same however they are spelled", () => {
  for (const [a, b] of [
    [1, 1],
    ["", null],
    ["5", 5],
    ['["a","b"]', "a, b"],
    ["[1, 2]", "[1,2]"],
  ])
    assert.ok(isSameValue(a, b), `${a} ${b}`);
  for (const [a, b] of [
    [1, 1.1],
    [false, true],
    ['["a"]', "a, b"],
    ["[[1,2]]", "[[1],[2]]"],
    [0, ""],
  ])
    assert.ok(!isSameValue(a, b), `${a} ${b}`);
});

test("a form says who draws the tokens of a model behind an address, if the run was drawn elsewhere", () => {
  assert.deepEqual(describeDifferences(RUN, asked({ sampler: "server" })), []);
  assert.deepEqual(describeDifferences(RUN, asked({ sampler: "own" })), [
    "Who draws the tokens The server → This playground, one token per request",
  ]);
});

test("a form says what it has otherwise than a run, the first three by name", () => {
  assert.deepEqual(describeDifferences(RUN, asked()), []);
  assert.equal(changesSentence([]), "");
  assert.deepEqual(describeDifferences(RUN, asked({ temperature: 1.3 })), [
    "Temperature 0.5 → 1.3",
  ]);
  const all = { ...asked({ top_k: "", plain_run: true }), prompt: "Twice", model: "n", seed: 7 };
  assert.deepEqual(describeDifferences(RUN, all), [
    "another prompt",
    "Model Model M → Model N",
    "Seed 0 → 7",
    "Top-k 50 → off",
    "Plain run off → on",
  ]);
  assert.match(
    changesSentence(describeDifferences(RUN, all)),
    /Seed 0 → 7 and 2 more\. Press Run to see it\.$/,
  );
  // A model behind an address is named without it; there may be no name yet.
  for (const [model, title] of [
    ["endpoint:http://127.0.0.1:8080/v1#small", "small"],
    ["endpoint:#", "An address…"],
  ])
    assert.deepEqual(describeDifferences(RUN, { ...asked(), model }), [`Model Model M → ${title}`]);
  // A branch has no prompt of its own.
  assert.deepEqual(
    describeDifferences({ ...RUN, prompt: null }, { ...asked(), prompt: "Twice" }),
    [],
  );
});

test("the preset whose settings a form holds is found", () => {
  assert.equal(findPreset(RUN)?.name, "Cool");
  assert.equal(findPreset({ ...RUN, seed: "1" }), undefined);
  assert.deepEqual(changedValues(PARAMS, RUN.values), { temperature: 0.5 });
});

test("an archive can be read by others, and is the same every time", async () => {
  const files = { "a.txt": "x".repeat(500), "b/é.bin": new Uint8Array([0, 1, 255]) };
  const packed = Buffer.from(await (await createZip(files)).arrayBuffer());
  assert.deepEqual(packed, Buffer.from(await (await createZip(files)).arrayBuffer()));
  const { execFileSync } = await import("node:child_process");
  const code =
    "import io, sys, zipfile; z = zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read())); assert z.testzip() is None;" +
    " print([(n, len(z.read(n)), z.read(n)[-1]) for n in z.namelist()])";
  const said = execFileSync(process.env.PYTHON ?? "python3", ["-c", code], {
    input: packed,
    encoding: "utf8",
  });
  assert.equal(said.trim(), "[('a.txt', 500, 120), ('b/é.bin', 3, 255)]");
});
