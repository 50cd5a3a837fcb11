// What a speech model is told, in words and in an address.
import assert from "node:assert/strict";
import { test } from "node:test";
import { buildRunLink } from "../../playground/client/shell/address.mjs";
import {
  diffSpeechSettings,
  languageName,
  listSpeechSettings,
} from "../../visualizers/shared/speech.mjs";

const TOLD = { language: "de", task: "translate", return_timestamps: true };

test("a language has its name, and what is none stays as it came", () => {
  assert.equal(languageName("de"), "German");
  assert.equal(languageName("yue"), "Cantonese");
  for (const odd of ["<|de|>", "x".repeat(40)]) assert.equal(languageName(odd), odd);
});

test("what was told is said, whatever a file says", () => {
  assert.deepEqual(listSpeechSettings(TOLD), [
    ["Language", "German"],
    ["Task", "translate to English"],
    ["Times", "on"],
  ]);
  for (const nothing of [null, undefined, {}, { return_timestamps: false, other: 1 }])
    assert.deepEqual(listSpeechSettings(nothing), []);
  assert.deepEqual(listSpeechSettings({ language: {}, task: "constructor" }), [
    ["Language", "[object Object]"],
    ["Task", "constructor"],
  ]);
});

test("only what is told otherwise is named", () => {
  assert.deepEqual(diffSpeechSettings(null, { language: "de" }), [
    ["Language", "heard by itself", "German"],
  ]);
  assert.deepEqual(
    diffSpeechSettings(TOLD, { ...TOLD, task: "transcribe", return_timestamps: false }),
    [
      ["Task", "translate to English", "transcribe"],
      ["Times", "on", "off"],
    ],
  );
  assert.deepEqual(diffSpeechSettings(TOLD, { ...TOLD }), []);
  assert.deepEqual(diffSpeechSettings(null, undefined), []);
});

test("an address has what is told and nothing of what is not", () => {
  const link = (speech) => [
    ...new URLSearchParams(buildRunLink({ strategy: "greedy", speech, params: {} })).keys(),
  ];
  assert.deepEqual(link(null), ["strategy", "params", "pressed"]);
  assert.deepEqual(link({ language: "de" }), ["strategy", "language", "params", "pressed"]);
  const found = new URLSearchParams(buildRunLink({ strategy: "greedy", speech: TOLD, params: {} }));
  assert.deepEqual([found.get("task"), found.get("timestamps")], ["translate", "1"]);
});
