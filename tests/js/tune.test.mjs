// The plan of a table: settings of a grid, and what they are called.
import assert from "node:assert/strict";
import { test } from "node:test";
import { columnName, expandGrid } from "../../playground/client/tabs/tune_settings.mjs";

const column = (values, strategy = "sampling") => ({ strategy, values });

test("a grid gives a setting for every combination of its values", () => {
  const found = expandGrid(column({ top_k: 0 }), "temperature = 0.5, 1\nsome_flag = true,x,");
  assert.deepEqual(
    found.map(({ values }) => values),
    [0.5, 1].flatMap((temperature) =>
      ["true", "x"].map((some_flag) => ({ top_k: 0, temperature, some_flag })),
    ),
  );
  assert.deepEqual(expandGrid(column({}), ""), [column({})]);
  assert.deepEqual(expandGrid(column({}), "temperature"), [column({})]);
});

test("a setting is called by what differs from the others of its strategy", () => {
  const both = [
    column({ max_new_tokens: 40, top_k: 0, temperature: 0.5 }),
    column({ max_new_tokens: 40, top_k: 0, temperature: 1 }),
  ];
  const other = column({ max_new_tokens: 40, num_beams: 4 }, "beam_search");
  assert.deepEqual(
    [...both, other].map((one) => columnName(one, [...both, other])),
    ["sampling, temperature 0.5", "sampling, temperature 1", "beam_search, num_beams 4"],
  );
});
