// Numbers with the signs of a reader's language.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./page.mjs";

document.getElementById = (id) =>
  id === "dp-texts"
    ? { lang: "de", textContent: '{"“{text}”": "„{text}“"}' }
    : { textContent: '{"{p} of all": "{p} von allen"}' };
const { addTemplates, said } = await import("../../visualizers/shared/server_text.mjs");
const text = await import("../../visualizers/shared/text.mjs");
const { formulaToMath } = await import("../../visualizers/shared/formula.mjs");
const { tr } = await import("../../visualizers/shared/tr.mjs");

test("the page writes numbers as its reader does", () => {
  assert.equal(text.formatFixed(-1234.5), "−1.234,50");
  assert.equal(text.formatFixed(0.00698), "0,0070");
  assert.equal(text.formatFixed(2.04e-9), "2,0 · 10⁻⁹");
  assert.equal(text.formatPercent(0.0512), "5,12 %");
  assert.equal(text.formatPercent(0.99999), ">99,99 %");
  assert.equal(text.formatWholePercent(0.0001), "<0,1\u00a0%");
  assert.equal(text.formatCount(4046), "4.046");
  assert.equal(text.formatSeconds(1), "1,0 s");
  assert.equal(tr("by {bias} at {n}", { bias: -2.5, n: 4046 }), "by −2,5 at 4046");
});

test("the server's numbers get the same signs, and its other texts do not", () => {
  addTemplates({ "48.2 % of all": { template: "{p} of all", values: { p: "48.2 %" } } });
  assert.equal(said("48.2 % of all"), "48,2 % von allen");
  assert.equal(said("−1,234.56"), "−1.234,56");
  assert.equal(said("2.0 × 10⁻⁷"), "2,0 × 10⁻⁷");
  for (const other of ["2.13.0", "model-1.5", "1,2,3"]) assert.equal(said(other), other);
});

test("a token has the quotes of the reader's language, from the page and from the server", () => {
  assert.equal(text.quoteText("b"), "„b“");
  addTemplates({ "“b” of all": { template: "{p} of all", values: { p: "“b”" } } });
  assert.equal(said("“b” of all"), "„b“ von allen");
  assert.equal(said("“b”"), "„b“");
  assert.equal(said("“a” or “b”"), "“a” or “b”");
});

test("a formula has the decimal sign of the reader's language, and no comma between numbers", () => {
  const node = formulaToMath(["max", "(", "0.25", ",", "-1.5e-06", ")"]);
  assert.equal(node.textContent, "max(0,25;−1,5·10−6)");
  assert.match(node.attributes["aria-label"], /^max 0,25, .*1,5/);
});
