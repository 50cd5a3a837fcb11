// Formulas typeset and said, with the numbers of every recorded step.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./page.mjs";
import { FORMS } from "../../visualizers/formula/forms.mjs";
import {
  formulaToMath,
  formulaToWords,
  frac,
  parenthesize,
  sub,
  sup,
  token,
} from "../../visualizers/shared/formula.mjs";
import { numbers } from "./traces.mjs";

const lines = Object.values(numbers).flatMap(
  ({ shown }) => shown.flatMap((step) => step.formula?.lines ?? []), // of custom methods there are none
);

test("a formula is MathML with its words beside it", () => {
  const node = formulaToMath([sub("p", "x"), "=", frac(sup("e", "-1.5"), "8.9e+07")]);
  assert.equal(node.name, "math");
  for (const one of node.all()) assert.equal(one.namespace, "http://www.w3.org/1998/Math/MathML");
  assert.equal(
    node.attributes["aria-label"],
    "p x equals e to the power minus 1.5, over 8.9 times 10 to the power 7",
  );
  assert.equal(node.textContent, "px=e−1.58.9·107");
  assert.deepEqual(
    node
      .all()
      .map((n) => n.name)
      .filter((name) => name.startsWith("mf") || name === "msup"),
    ["mfrac", "msup", "msup"],
  );
});

test("symbols, functions, operators and texts are told apart", () => {
  const names = formulaToMath(["x", ["y′"], "log", "Σ", "≤", "0.5", token("<b>·the")]).all();
  const leaves = names.filter((n) => !n.all().slice(1).length).map((n) => [n.name, n.textContent]);
  assert.deepEqual(
    leaves.filter(([name]) => name !== "mspace"),
    [
      ["mi", "x"],
      ["mi", "y"],
      ["mo", "′"],
      ["mi", "log"],
      ["mo", "∑"],
      ["mo", "≤"],
      ["mn", "0.5"],
      ["mtext", "<b>·the"],
    ],
  );
});

test("a negative number behind an operator stands in brackets", () => {
  assert.deepEqual(parenthesize("-2"), ["(", "-2", ")"]);
  assert.equal(parenthesize("2"), "2");
});

test("every form of a recorded run is known, and shows every number it has", () => {
  assert.ok(lines.length > 1000);
  for (const line of lines) {
    const form = FORMS[line.form];
    assert.ok(form, line.form);
    // Such a line stands for its symbols alone.
    if (line.is === undefined && line.of === undefined) continue;
    const drawn = form
      .draw(line.with ?? {}, token("it"), line.is ?? null, line)
      .map(formulaToWords)
      .join(" ");
    const shown = [...Object.values(line.with ?? {}).flat(), line.is, line.u].filter(Boolean);
    for (const number of shown) {
      if (line.form === "top_p" || (line.form === "accept_mixture" && number === line.with.w))
        continue;
      // The largest probability is the result, with the result's digits.
      if (line.form === "match" && number === line.with.b) continue;
      const [digits] = number.replace("-", "minus ").split("e");
      assert.ok(drawn.includes(digits), `${line.form}: ${number} is not in ${drawn}`);
    }
  }
});

test("every form is drawn with its symbols, and says what they are", () => {
  for (const [name, form] of Object.entries(FORMS)) {
    const drawn = form.draw(form.symbols, "x", null, {}).map(formulaToWords).join(" ");
    assert.ok(drawn && !/undefined|NaN/.test(drawn), `${name}: ${drawn}`);
    assert.match(form.where, /\.$/);
    for (const tree of form.draw(form.symbols, "x", null, {})) formulaToMath(tree);
  }
});
