// Sentences of the server in another language.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  addTemplates,
  collectTemplates,
  createTranslator,
  parseMessage,
  said,
} from "../../visualizers/shared/server_text.mjs";

const GERMAN = {
  "The file is empty.": "Die Datei ist leer.",
  "{parameter} = {got} is not allowed: {allowed}.": "{parameter} = {got} geht nicht: {allowed}.",
  "a whole number from {low} to {high}": "eine ganze Zahl von {low} bis {high}",
  "{done} of {total} tokens": "von {total} Tokens {done}",
};
const german = createTranslator(GERMAN);
const RANGE = "a whole number from 0 to 9";
const SENTENCE = `seed = $1 is not allowed: ${RANGE}.`;
addTemplates({
  "3 of 20 tokens": { template: "{done} of {total} tokens", values: { done: "3", total: "20" } },
  [RANGE]: { template: "a whole number from {low} to {high}", values: { low: "0", high: "9" } },
  [SENTENCE]: {
    template: "{parameter} = {got} is not allowed: {allowed}.",
    values: { parameter: "seed", got: "$1", allowed: RANGE },
  },
});

test("a sentence without values is looked up as it is", () => {
  assert.equal(german("The file is empty."), "Die Datei ist leer.");
});

test("values come where the other language has them", () => {
  assert.equal(german("3 of 20 tokens"), "von 20 Tokens 3");
});

test("a value that is a sentence is translated, too", () => {
  assert.equal(german(SENTENCE), "seed = $1 geht nicht: eine ganze Zahl von 0 bis 9.");
});

test("a sentence whose template is unknown stays English", () => {
  assert.equal(german("4 of 20 tokens"), "4 of 20 tokens");
  assert.equal(german("toString"), "toString");
});

test("a template without a translation still translates its values", () => {
  addTemplates({ [`x ${RANGE}`]: { template: "x {y}", values: { y: RANGE } } });
  assert.equal(german(`x ${RANGE}`), "x eine ganze Zahl von 0 bis 9");
});

test("a template that does not give its sentence is ignored", () => {
  addTemplates({
    "All is well.": { template: "The file is empty.", values: {} },
    "Unused.": { template: "Unused.", values: { a: "The file is empty." } },
  });
  assert.deepEqual(collectTemplates(["Unused."]), {});
  assert.equal(german("All is well."), "All is well.");
});

test("a sentence that contains itself ends", () => {
  addTemplates({ loop: { template: "{a}", values: { a: "loop" } } });
  assert.equal(german("loop"), "loop");
});

test("a message of the server brings its templates along", () => {
  const templates = {
    "7 of 9 tokens": { template: "{done} of {total} tokens", values: { done: "7", total: "9" } },
  };
  const message = parseMessage(JSON.stringify({ says: "7 of 9 tokens", templates }));
  assert.equal(german(message.says), "von 9 Tokens 7");
  assert.deepEqual(collectTemplates({ notes: [message.says, "other"] }), templates);
});

test("the templates of values are collected, too", () => {
  assert.deepEqual(Object.keys(collectTemplates([SENTENCE])), [SENTENCE, RANGE]);
});

test("what is no text stays what it is", () => {
  for (const value of [null, undefined, 7, true, ["The file is empty."]])
    assert.equal(german(value), value);
});

test("a page in English shows what came", () => {
  assert.equal(said("3 of 20 tokens"), "3 of 20 tokens");
});
