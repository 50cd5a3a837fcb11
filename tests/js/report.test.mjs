// The badge of a drafted run.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createCosts, showBadge } from "../../visualizers/draft_timeline/report.mjs";
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

test("what the formula expects is a sentence whose terms are words", () => {
  const spent = { draft_s: 0.1, verify_s: 0.2, acceptance_rate: 0.5 };
  const figures = { ...spent, expected_speed_up: 2.5, cost_ratio: 0.1 };
  const text = createCosts({ figures, plain: null })
    .map((node) => node.textContent)
    .join(" ");
  assert.match(text, /expects 2\.50 × plain decoding from this acceptance rate and cost ratio \(/);
  assert.doesNotMatch(text, /object/);
});
