// Sentences of the server in another language.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createTranslator, said } from "../../visualizers/shared/server_text.mjs";

const GERMAN = {
  "The file is empty.": "Die Datei ist leer.",
  "{parameter} = {got} is not allowed: {allowed}.": "{parameter} = {got} geht nicht: {allowed}.",
  "{parameter} = {got} is not allowed: {allowed}; {hint}.":
    "{parameter} = {got} geht nicht: {allowed}; {hint}.",
  "it must be {range}": "erlaubt ist {range}",
  "a whole number from {low} to {high}": "eine ganze Zahl von {low} bis {high}",
  "did you mean {near}": "meintest du {near}",
  "{done} of {total} tokens": "von {total} Tokens {done}",
  "The run stopped: {why}": "Der Lauf hielt an: {why}",
  "a (round) + [square] $1 text?": "ein (runder) + [eckiger] $1 Text?",
  "{n} (round) + [square] $1 texts?": "{n} (runde) + [eckige] $1 Texte?",
};
const german = createTranslator(GERMAN);

test("a sentence that stands there is said as it stands", () => {
  assert.equal(german("The file is empty."), "Die Datei ist leer.");
});

test("values come where the other language has them", () => {
  assert.equal(german("3 of 20 tokens"), "von 20 Tokens 3");
  assert.equal(german("did you mean top_k"), "meintest du top_k");
});

test("a value that is a sentence is said, too, and so is a value of that", () => {
  assert.equal(
    german("seed = 1.5 is not allowed: it must be a whole number from 0 to 9."),
    "seed = 1.5 geht nicht: erlaubt ist eine ganze Zahl von 0 bis 9.",
  );
  assert.equal(
    german("The run stopped: The file is empty."),
    "Der Lauf hielt an: Die Datei ist leer.",
  );
});

test("deeper than three a value stays as it came, but for what stands there whole", () => {
  const deep = (last) => `${"The run stopped: ".repeat(3)}${last}`;
  const other = (last) => `${"Der Lauf hielt an: ".repeat(3)}${last}`;
  assert.equal(german(deep("did you mean a")), other("did you mean a"));
  assert.equal(german(deep("The file is empty.")), other("Die Datei ist leer."));
});

test("what says more of itself is tried first, wherever it stands in the file", () => {
  const sentence =
    "top = 1 is not allowed: it must be a whole number from 0 to 9; did you mean top_k.";
  const expected =
    "top = 1 geht nicht: erlaubt ist eine ganze Zahl von 0 bis 9; meintest du top_k.";
  assert.equal(german(sentence), expected);
  const turned = createTranslator(Object.fromEntries(Object.entries(GERMAN).reverse()));
  assert.equal(turned(sentence), expected);
});

test("a whole sentence comes before a pattern that would match it", () => {
  const say = createTranslator({ "{n} files": "{n} Dateien", "no files": "keine Dateien" });
  assert.equal(say("no files"), "keine Dateien");
  assert.equal(say("2 files"), "2 Dateien");
});

test("what is not known stays as it came, also what a pattern matches in its midst alone", () => {
  for (const sentence of ["Something else.", "", "so: 3 of 20 tokens!", "toString", "__proto__"])
    assert.equal(german(sentence), sentence);
});

test("signs of patterns are signs of a text, in words and in values", () => {
  assert.equal(german("a (round) + [square] $1 text?"), "ein (runder) + [eckiger] $1 Text?");
  assert.equal(german("2 (round) + [square] $1 texts?"), "2 (runde) + [eckige] $1 Texte?");
  assert.equal(german("did you mean $& {near} $1"), "meintest du $& {near} $1");
});

test("a value may go over several lines, and may not be empty", () => {
  assert.equal(german("did you mean a\nb"), "meintest du a\nb");
  assert.equal(german("did you mean "), "did you mean ");
});

test("a long text is not searched, a known one is said all the same", () => {
  const long = `did you mean ${"a".repeat(2000)}`;
  assert.equal(german(long), long);
  assert.equal(german(long.slice(0, 2000)), `meintest du ${"a".repeat(1987)}`);
  const known = "b".repeat(3000);
  assert.equal(createTranslator({ [known]: "kurz", "{n} x": "{n} y" })(known), "kurz");
});

test("what is no text stays what it is", () => {
  for (const value of [null, undefined, 7, true, ["The file is empty."]])
    assert.equal(german(value), value);
});

test("a page in English says what came", () => {
  assert.equal(said("The file is empty."), "The file is empty.");
  assert.equal(createTranslator({})("3 of 20 tokens"), "3 of 20 tokens");
});

const rows = createTranslator({
  "{name} was kept: its place is {place} of {places}.":
    "{name} bleibt: Platz {place} von {places}.",
  "It is {ahead} ahead of the next.": "Es liegt {ahead} vor dem nächsten.",
  "Away. Press Run to start again.": "Weg. Drücke Ausführen.",
});

test("sentences in a row are said one by one", () => {
  const both = "“a. B” was kept: its place is 1 of 3. It is 0.2 ahead of the next.";
  assert.equal(rows(both), "“a. B” bleibt: Platz 1 von 3. Es liegt 0.2 vor dem nächsten.");
});

test("what is known as a whole is not taken apart", () => {
  assert.equal(rows("Away. Press Run to start again."), "Weg. Drücke Ausführen.");
});

test("what is not known stays, beside what is", () => {
  assert.equal(rows("Nobody knows. Not this."), "Nobody knows. Not this.");
  const half = "It is 0.2 ahead of the next. Nobody knows.";
  assert.equal(rows(half), "Es liegt 0.2 vor dem nächsten. Nobody knows.");
});
