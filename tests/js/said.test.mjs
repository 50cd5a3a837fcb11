// What the server tells, said in another language.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sayer } from "../../visualizers/shared/said.mjs";

const said = sayer({
  "{name} was kept: its place is {place} of {places}.":
    "{name} bleibt: Platz {place} von {places}.",
  "It is {ahead} ahead of the next.": "Es liegt {ahead} vor dem nächsten.",
  "Away. Press Run to start again.": "Weg. Drücke Ausführen.",
});

test("sentences in a row are said one by one", () => {
  const both = "“a. B” was kept: its place is 1 of 3. It is 0.2 ahead of the next.";
  assert.equal(said(both), "“a. B” bleibt: Platz 1 von 3. Es liegt 0.2 vor dem nächsten.");
});

test("what is known as a whole is not taken apart", () => {
  assert.equal(said("Away. Press Run to start again."), "Weg. Drücke Ausführen.");
});

test("what is not known stays, beside what is", () => {
  assert.equal(said("Nobody knows. Not this."), "Nobody knows. Not this.");
  const half = "It is 0.2 ahead of the next. Nobody knows.";
  assert.equal(said(half), "Es liegt 0.2 vor dem nächsten. Nobody knows.");
});
