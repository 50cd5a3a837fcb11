// The badge of a drafted run.
import assert from "node:assert/strict";
import { test } from "node:test";
import { showBadge } from "../../visualizers/draft_timeline/report.mjs";
import "./page.mjs";

const badge = (do_sample) => {
  const report = { checked: 0, parting: null, distributions: [] };
  const run = {
    config: { do_sample },
    steps: [{ index: 0, detail: { report } }],
    shown: [{ draft_timeline: { weights: null } }],
  };
  const box = document.createElement("div");
  box.replaceChildren = () => {};
  showBadge(box, run);
  return box.textContent;
};

test("a greedy text that was not checked is not called sampled", () => {
  assert.match(badge(false), /Not checked/);
  assert.match(badge(true), /Sampled/);
});
