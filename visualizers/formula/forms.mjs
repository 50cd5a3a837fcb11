// All formulas: title, symbols, a function that draws them, and the meaning of the symbols.
import {
  between,
  choose,
  frac,
  parenthesize,
  sqrt,
  sub,
  sup,
  under,
  words,
} from "../shared/formula.mjs";
import { tr } from "../shared/tr.mjs";
import { DRAFTS } from "./drafts.mjs";
import { applyTo, equals, sumOver, z } from "./parts.mjs";

/** @import { Tree } from "../shared/formula.mjs" */

/** @typedef {import("./parts.mjs").Form} Form */

/** @type {Record<string, Form>} */
const STEPS = {
  softmax: {
    title: tr("The model's own probability"),
    symbols: { z: z("x"), s: sumOver("y", sup("e", z("y"))) },
    draw: (v, x, is) => [[applyTo("p", x), "=", frac(sup("e", v.z), v.s)], ...equals(is)],
    where: tr(
      "The [softmax]: z is the [logit] of a [token], x the token that was chosen, and the sum runs over the whole [vocabulary]. Its logarithm is the [logsumexp].",
    ),
  },
  repeated_down: {
    title: tr("Repetition penalty"),
    symbols: { z: z("x"), r: "θ" },
    draw: (v, x, is) => [[sub("z′", x), "=", frac(v.z, v.r)], ...equals(is)],
    where: tr(
      "x occurred before and its [logit] z is positive, so it is divided by the [repetition penalty] θ.",
    ),
  },
  repeated_up: {
    title: tr("Repetition penalty"),
    symbols: { z: z("x"), r: "θ" },
    draw: (v, x, is) => [[sub("z′", x), "=", v.z, "·", v.r], ...equals(is)],
    where: tr(
      "x occurred before and its [logit] z is negative, so it is multiplied by the [repetition penalty] θ.",
    ),
  },
  dry: {
    title: tr("DRY"),
    symbols: { z: z("x"), m: "m", b: "b", n: "n", a: "a" },
    draw: (v, x, is) => [
      [sub("z′", x), "=", v.z, "−", v.m, "·", sup(v.b, [v.n, "−", v.a])],
      ...equals(is),
    ],
    where: tr(
      "x would continue a repeat of n tokens, and [DRY] allows repeats shorter than a. m is the penalty, and b is how much it grows with every token.",
    ),
  },
  top_k: {
    title: tr("Top-k"),
    symbols: { k: "k" },
    draw: (v, x, is) => [[applyTo("rank", x), is === null ? [] : ["=", is], "≤", v.k]],
    where: tr("[top-k|Top-k] keeps the tokens whose [rank] is at most k."),
  },
  top_p: {
    title: tr("Top-p"),
    symbols: { m: sumOver("y", applyTo("p", "y")), c: "P" },
    draw: (v) => [[v.m, "≥", v.c]],
    where: tr(
      "The sum runs over the most probable tokens y, as many as [top-p] needs to reach P. It is the [probability kept].",
    ),
  },
  top_p_last: {
    title: tr("Top-p"),
    symbols: { m: sumOver("y", applyTo("p", "y")), b: applyTo("p", "ℓ"), c: "P" },
    draw: (v, _, is) => [
      [v.m, "≥", v.c],
      [v.m, "−", v.b, is === null ? [] : ["=", is], "<", v.c],
    ],
    where: tr(
      "The sum runs over the tokens y that [top-p] kept: they reach P, and without the last of them, ℓ, they would not. The sum is the [probability kept].",
    ),
  },
  min_p: {
    title: tr("Min-p"),
    symbols: { a: "a", b: [under("max", "y"), applyTo("p", "y")] },
    draw: (v, _, is) => [
      is === null ? [applyTo("p", "x"), "≥", v.a, "·", v.b] : [v.a, "·", v.b, "=", is],
    ],
    where: tr(
      "[min-p|Min-p] keeps a token whose probability is at least the share a of the most probable one's.",
    ),
  },
  top_n_sigma: {
    title: tr("Top-n-sigma"),
    symbols: {},
    draw: () => [[z("x"), "≥", under("max", "y"), z("y"), "−", "n", "·", "σ"]],
    where: tr(
      "[top-n-sigma|Top-n-sigma] keeps a token whose [logit] z is at most n standard deviations σ below the largest.",
    ),
  },
  mirostat: {
    title: tr("Mirostat"),
    symbols: { p: applyTo("p", "x"), m: "μ" },
    draw: (v, x, is) => [
      [applyTo("s", x), "=", "−", sub("log", "2"), v.p, is === null ? [] : ["=", is], "≤", v.m],
    ],
    where: tr(
      "[Mirostat] keeps the tokens whose [surprise] is at most its cap μ, in [bit|bits]. p is the probability that the filter received.",
    ),
  },
  adaptive_p: {
    title: tr("Adaptive-p"),
    symbols: { p: applyTo("p", "x"), t: "t" },
    draw: (v, x, is) => [
      [
        sub("z′", x),
        "=",
        "5",
        "−",
        "10",
        "·",
        frac(sup("d", "2"), ["1", "+", "d"]),
        is === null ? [] : ["=", is],
      ],
      ["d", "=", frac(["|", v.p, "−", v.t, "|"], "0.3")],
    ],
    where: tr(
      "[adaptive-p|Adaptive-p] gives a token a score that falls with the distance d of its probability p from the target t of this step.",
    ),
  },
  xtc: {
    title: tr("XTC"),
    symbols: { c: "c", p: "P", t: "t" },
    draw: (v) => [
      [v.c, "≤", v.p],
      [applyTo("p", "y"), "≥", v.t],
    ],
    where: tr(
      "The coin c of this step is at most P, so [XTC] acts: of the tokens y whose probability is at least t, only the least probable stays.",
    ),
  },
  xtc_rests: {
    title: tr("XTC"),
    symbols: { c: "c", p: "P" },
    draw: (v) => [[v.c, ">", v.p]],
    where: tr("The coin c of this step is above P, so [XTC] removes nothing."),
  },
  tempered: {
    title: tr("Probability with your settings"),
    symbols: { z: z("x"), t: "T", s: sumOver("y", sup("e", [z("y"), "/", "T"])) },
    draw: (v, x, is) => [
      [applyTo("p′", x), "=", frac(sup("e", [v.z, "/", v.t]), v.s)],
      ...equals(is),
    ],
    where: tr(
      "z is the [logit] as the penalties left it, T the [temperature] (1 changes nothing), and the sum runs over the tokens that the [processor|filters] left.",
    ),
  },
  biased: {
    title: tr("With your settings and the mark"),
    symbols: {
      z: z("x"),
      t: "T",
      d: sub("δ", "x"),
      s: sumOver("y", sup("e", [z("y"), "/", "T", "+", sub("δ", "y")])),
    },
    draw: (v, x, is) => [
      [applyTo("p′", x), "=", frac(sup("e", [v.z, "/", v.t, "+", v.d]), v.s)],
      ...equals(is),
    ],
    where: tr(
      "z is the [logit], T the [temperature], δ the [bias] of a token on the [green list] and 0 for any other; the sum runs over the tokens that were left.",
    ),
  },
  surprise: {
    title: tr("Surprise"),
    symbols: { p: applyTo("p", "x") },
    draw: (v, x, is) => [
      [applyTo("s", x), "=", "−", sub("log", "2"), v.p],
      ...(is === null ? [] : [["=", is, words(tr("bits"))]]),
    ],
    where: tr("p is the model's own [probability]; the [surprise] is in [bit|bits]."),
  },
  race: {
    title: tr("The draw"),
    symbols: { e: sub("ε", "x"), p: applyTo("p′", "x") },
    draw: (v, x, is) => [[applyTo("t", x), "=", frac(v.e, v.p)], ...equals(is)],
    where: tr(
      "ε is the [noise] that a token drew, p′ its probability with your settings, t its [arrival]: the earliest of all wins the [draw].",
    ),
  },
  argmax: {
    title: tr("The choice"),
    symbols: {},
    draw: (_, x) => [[x, "=", under("argmax", "y"), applyTo("p′", "y")]],
    where: tr("Nothing is drawn: the token y with the largest probability is taken."),
  },
  contrastive: {
    title: tr("Contrastive score"),
    symbols: { a: "α", p: applyTo("p", "x"), s: applyTo("s", "x") },
    draw: (v, x, is) => [
      [
        applyTo("score", x),
        "=",
        "(",
        "1",
        "−",
        v.a,
        ")",
        "·",
        v.p,
        "−",
        v.a,
        "·",
        parenthesize(v.s),
      ],
      ...equals(is),
    ],
    where: tr(
      "The first part is the [confidence], the second the [degeneration penalty]: p is the probability with your settings, s the largest [cosine] between the [hidden state] of x and that of any earlier token, α the weight between both. The highest score wins.",
    ),
  },
};

/** @type {Record<string, Form>} */
const SEARCH = {
  sum: {
    title: tr("Sum of the best open text"),
    symbols: { s: "S′", b: ["log", applyTo("p", "x")] },
    draw: (v, _, is) => [["S", "=", v.s, "+", parenthesize(v.b)], ...equals(is)],
    where: tr(
      "S′ is the [sum of log-probabilities] before this step and log p the [log-probability] of its token x, after every filter, both in [nat|nats].",
    ),
  },
  score: {
    title: tr("Score of the best open text"),
    symbols: { s: "S", n: "n", a: "α" },
    draw: (v, _, is) => [["score", "=", frac(v.s, sup(v.n, parenthesize(v.a)))], ...equals(is)],
    where: tr(
      "S is the [sum of log-probabilities], n the number of new tokens, α the [length penalty]. While a text is open only S counts; the [score] ranks it when it has ended.",
    ),
  },
  finished_score: {
    title: tr("Score of the best finished text"),
    symbols: { s: "S", n: "n", a: "α" },
    draw: (v, _, is) => [["score", "=", frac(v.s, sup(v.n, parenthesize(v.a)))], ...equals(is)],
    where: tr(
      "S is the [sum of log-probabilities] of the best [hypothesis] so far, n its number of new tokens, α the [length penalty].",
    ),
  },
  diversity: {
    title: tr("Diversity penalty"),
    symbols: { b: ["log", applyTo("p", "x")], w: "λ", n: "n" },
    draw: (v, x, is) => [["log", applyTo("p′", x), "=", v.b, "−", v.w, "·", v.n], ...equals(is)],
    none: tr("No token was charged at this step."),
    where: tr(
      "λ is the [diversity penalty] and n the number of [beam|beams] of earlier [group|groups] that took x at this step.",
    ),
  },
  joint: {
    title: tr("The draw of whole texts"),
    symbols: {},
    draw: () => [
      [
        applyTo("P", "t"),
        "=",
        frac(sup("e", sub("S", "t")), sumOver("u", sup("e", sub("S", "u")))),
      ],
    ],
    where: tr(
      "S is the sum of log-probabilities of a text t as long as this one, and the sum runs over all continuations u of all [beam|beams]. The beams are drawn from P without putting any back.",
    ),
  },
};

/** @type {Record<string, Form>} */
const LAYERS = {
  farthest: {
    title: tr("The premature layer"),
    symbols: { d: [] },
    draw: (v, _, is, line) =>
      is === null
        ? [["M", "=", under("argmax", "j"), "JSD", "(", sub("q", "N"), ",", sub("q", "j"), ")"]]
        : [
            [
              "max",
              "(",
              v.d.flatMap((/** @type {Tree} */ d, /** @type {number} */ i) => (i ? [",", d] : [d])),
              ")",
            ],
            ["=", is],
            ["M", "=", String(line.layer)],
          ],
    where: tr(
      "q is what a [layer] says: N is the last one, j every candidate layer, and M, the one that differs most, the [premature layer]. [JSD] is the mean of two [KL divergence|KL divergences], of the middle of both distributions from each.",
    ),
  },
  mask: {
    title: tr("The mask"),
    symbols: { a: "0.1", p: [under("max", "y"), sub("p", "N"), "(", "y", ")"] },
    draw: (v, _, is) => [
      is === null ? [sub("p", "N"), "(", "x", ")", "≥", v.a, "·", v.p] : [v.a, "·", v.p, "=", is],
    ],
    where: tr(
      "Only tokens with at least a tenth of the largest probability in the last layer N are compared at all.",
    ),
  },
  log_ratio: {
    title: tr("The contrast"),
    symbols: {
      n: ["log", sub("p", "N"), "(", "x", ")"],
      m: ["log", sub("p", "M"), "(", "x", ")"],
    },
    draw: (v, x, is) => [[applyTo("F", x), "=", v.n, "−", parenthesize(v.m)], ...equals(is)],
    where: tr(
      "The [contrast] is how much the [log-probability] grew from the premature layer M to the last layer N, in [nat|nats].",
    ),
  },
};

/** @type {Record<string, Form>} */
const MARKS = {
  tournament: {
    title: tr("One round of the tournament"),
    symbols: {},
    draw: () => [
      [
        applyTo("p′", "x"),
        "=",
        applyTo("p", "x"),
        "·",
        "(",
        "1",
        "+",
        applyTo("g", "x"),
        "−",
        sumOver("y", applyTo("p", "y"), applyTo("g", "y")),
        ")",
      ],
    ],
    where: tr(
      "g is the [g-value] of a token for one key. Each round of the [tournament] lets tokens with a 1 grow, and there is one round for each key.",
    ),
  },
  ones: {
    title: tr("Ones of this token"),
    symbols: { h: sumOver("k", sub("g", "k"), "(", "x", ")"), n: "m" },
    draw: (v, x, is) => [[applyTo("mean", x), "=", frac(v.h, v.n)], ...equals(is)],
    where: tr("The sum of the token's [g-value|g-values] over m, the number of keys."),
  },
  z: {
    title: tr("z of the text so far"),
    symbols: { h: "h", n: "n", g: "γ" },
    draw: (v, _, is) => [
      [
        "z",
        "=",
        frac([v.h, "−", v.g, "·", v.n], sqrt([v.n, "·", v.g, "·", "(", "1", "−", v.g, ")"])),
      ],
      ...equals(is),
    ],
    where: tr(
      "h of n counted places are hits, green or 1; γ is the share of hits in text without this mark. This is the [z-score].",
    ),
  },
  tail: {
    title: tr("The exact p-value so far"),
    symbols: { h: "h", n: "n", g: "γ" },
    draw: (v, _, is) => [
      [
        "p",
        "=",
        between("Σ", ["k", "=", v.h], v.n),
        choose(v.n, "k"),
        sup(v.g, "k"),
        sup(["(", "1", "−", v.g, ")"], [v.n, "−", "k"]),
      ],
      ...equals(is),
    ],
    where: tr(
      "The chance of at least h hits among n by luck alone, where every distinct draw counts once: the [p-value].",
    ),
  },
};

export const FORMS = { ...STEPS, ...SEARCH, ...LAYERS, ...DRAFTS, ...MARKS };
