// The formulas of speculative decoding: acceptance of a drafted token, and the speed-up.
import { frac, sup, under, words } from "../shared/formula.mjs";
import { tr } from "../shared/tr.mjs";
import { applyTo, equals } from "./parts.mjs";

/** @import { Tree } from "../shared/formula.mjs" */
/** @import { FormulaLine } from "../shared/summaries.d.ts" */

/** @typedef {import("./parts.mjs").Form} Form */

/** @type {Record<string, Form>} */
export const DRAFTS = {
  accept: {
    title: tr("Kept or rejected"),
    symbols: { p: applyTo("p", "x"), q: applyTo("q", "x") },
    draw: (v, x, is, line) => [
      is === null
        ? ["u", "≤", "min", "(", "1", ",", frac(v.p, v.q), ")"]
        : [x, ":", "min", "(", "1", ",", frac(v.p, v.q), ")", "=", is],
      ...judgementLine(is, line),
    ],
    where: tr(
      "[p and q|p and q] are what the [main model] and the [draft] model give a drafted token with your settings. It is kept when the random number [u] is at most their ratio.",
    ),
  },
  accept_mixture: {
    title: tr("Kept or rejected, by a mixture"),
    symbols: { p: applyTo("p", "x"), q: applyTo("q", "x"), w: "w" },
    draw: (v, x, is, line) => [
      [
        ...(is === null ? ["u", "≤"] : [x, ":"]),
        ...["min", "(", "1", ",", "1", "−", v.w, "+", v.w, "·", frac(v.p, v.q), ")"],
        ...(is === null ? [] : ["=", is]),
      ],
      ...judgementLine(is, line),
    ],
    where: tr(
      "A mixture of both models judges the [draft], with weight w for the [main model], so the text may differ from the main model's own. u, p and q are as in [lossless] drafting.",
    ),
  },
  match: {
    title: tr("Kept or rejected"),
    symbols: {},
    draw: (v, x, is) =>
      is === null
        ? [[x, "=", under("argmax", "y"), applyTo("p", "y")]]
        : [[applyTo("p", x), "=", v.p, "<", is, "=", under("max", "y"), applyTo("p", "y")]],
    where: tr(
      "Nothing is drawn: a drafted token is kept when it is the token y that is most probable for the [main model].",
    ),
  },
  match_drawn: {
    title: tr("Kept or rejected"),
    symbols: {},
    draw: (_, x) => [
      [x, "=", "y"],
      ["y", "∼", applyTo("p", "y")],
    ],
    where: tr(
      "A copied draft has no probabilities. The [main model] draws a token y at every place, and keeps a drafted token that equals it.",
    ),
  },
  match_mixture: {
    title: tr("Kept or rejected, by a mixture"),
    symbols: {},
    draw: (_, x) => [
      [
        x,
        "=",
        under("argmax", "y"),
        "(",
        "w",
        applyTo("p", "y"),
        "+",
        "(",
        "1",
        "−",
        "w",
        ")",
        applyTo("q", "y"),
        ")",
      ],
    ],
    where: tr(
      "Nothing is drawn. A drafted token is kept when it is the most probable in a mixture of both models, with weight w for the [main model].",
    ),
  },
  residual: {
    title: tr("After the rejection"),
    symbols: { p: applyTo("p", "x"), q: applyTo("q", "x") },
    draw: (v, x, is) => [
      [applyTo("r", x), "∝", "max", "(", v.p, "−", v.q, ",", "0", ")"],
      ...equals(is),
    ],
    where: tr(
      "The token after a rejection is drawn from the [residual] r, which is 0 for the token that was rejected.",
    ),
  },
  speed_up: {
    title: tr("Expected speed-up so far"),
    symbols: { a: "a", g: "γ", c: "c" },
    draw: (v, _, is) => [
      [
        "E",
        "=",
        frac(
          ["1", "−", sup(v.a, [v.g, "+", "1"])],
          ["(", "1", "−", v.a, ")", "(", "1", "+", v.c, ")"],
        ),
      ],
      ...equals(is),
    ],
    where: tr(
      "a is the [acceptance rate], γ the mean length of a [draft], c the [cost ratio] of a draft to a pass of the main model. The [speed-up] E assumes that a pass over several tokens costs as much as one over a single token.",
    ),
  },
  speed_up_all: {
    title: tr("Expected speed-up so far"),
    symbols: { g: "γ", c: "c" },
    draw: (v, _, is) => [["E", "=", frac([v.g, "+", "1"], ["1", "+", v.c])], ...equals(is)],
    where: tr(
      "Every judged token was accepted; γ is the mean length of a [draft], c the [cost ratio] of a draft to a pass of the main model, E the [speed-up].",
    ),
  },
};

/**
 * The comparison of u with the limit, followed by "kept" or "rejected".
 * @param {string | null} is
 * @param {FormulaLine} line
 * @returns {Tree[]}
 */
const judgementLine = (is, line) =>
  is === null
    ? []
    : [
        [
          "u",
          "=",
          String(line.u),
          line.kept ? "≤" : ">",
          is,
          words(line.kept ? tr("kept") : tr("rejected")),
        ],
      ];
