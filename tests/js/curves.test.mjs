// A line chart before it has anything to show.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./page.mjs";
import { Curves } from "../../visualizers/shared/curves.mjs";

test("a pointer over a chart that is not drawn yet chooses no step and is no error", () => {
  globalThis.ResizeObserver = class {
    observe() {}
  };
  const chosen = [];
  const { picture } = new Curves("chart", (step) => chosen.push(step));
  for (const name of ["pointermove", "click"]) picture.listeners[name]({ clientX: 5 });
  assert.deepEqual(chosen, []);
});
