// The choice of layers: two halves by name, and a list that is typed without brackets.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fromLayers, toLayers } from "../../playground/client/forms/layers_field.mjs";

test("a list of layers is a third choice, next to the two halves", () => {
  for (const value of ["low", "high", "[2, 4]", "[6]", ""])
    assert.equal(toLayers(fromLayers(value)), value);
  assert.equal(fromLayers("[2, 4]"), "2, 4");
  assert.equal(toLayers("[1, 3]"), "[1, 3]");
  assert.equal(fromLayers(null), "");
});
