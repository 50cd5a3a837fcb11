// A formula as a tree, rendered as MathML or as spoken
// words. Browsers draw MathML without a library.
//
// A tree is a string (symbol, operator or number), an array
// of trees in a row, or a shape from SHAPES.
import { tr } from "./tr.mjs";

/**
 * @typedef {string | Tree[] | Shape} Tree
 * @typedef {{ shape: keyof typeof SHAPES, of: Tree[] }} Shape
 */

const NAMESPACE = "http://www.w3.org/1998/Math/MathML";
const NUMBER = /^-?\d[\d.,]*(?:e[+-]?\d+)?$/;
const SYMBOL = /^[A-Za-zα-ωℓ]$|^[a-zA-Z]{2,}$/;
// A thin space separates these function names from their argument.
const APART = ["log", "max", "argmax"];

// Shape -> MathML element, and a function from its spoken parts to its spoken form.
const SHAPES = {
  frac: ["mfrac", (a, b) => tr("{a} over {b},", { a, b })],
  sup: ["msup", (a, b) => tr("{a} to the power {b},", { a, b })],
  sub: ["msub", (a, b) => `${a} ${b}`],
  sqrt: ["msqrt", (a) => tr("the square root of {a},", { a })],
  under: ["munder", (a, b) => tr("{a} over {b}, of", { a, b })],
  between: ["munderover", (a, b, c) => tr("{a} from {b} to {c}, of", { a, b, c })],
  choose: ["mfrac", (a, b) => tr("{a} choose {b},", { a, b })],
  token: ["mtext", (text) => tr("“{text}”", { text })],
  words: ["mtext", (a) => a],
};

const make =
  (shape) =>
  (...of) => ({ shape, of });
export const frac = make("frac");
export const sup = make("sup");
export const sub = make("sub");
export const sqrt = make("sqrt");
export const under = make("under");
export const between = make("between");
export const choose = make("choose");
export const token = make("token");
export const words = make("words");

// A negative number in parentheses, for use after an operator.
export const inside = (number) =>
  typeof number === "string" && number.startsWith("-") ? ["(", number, ")"] : number;

function element(name, attrs, ...children) {
  const node = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attrs)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const leaf = (name, text) => element(name, {}, text);

// A number such as "6.9e-4" as 6.9 · 10⁻⁴, with a typographic minus sign.
function numberOf(text) {
  const [digits, power] = text.split("e");
  const sign = digits.startsWith("-") ? [leaf("mo", "−")] : [];
  const plain = leaf("mn", digits.replace("-", ""));
  if (power === undefined) return element("mrow", {}, ...sign, plain);
  const exponent = leaf("mn", String(Number(power)).replace("-", "−"));
  const ten = element("msup", {}, leaf("mn", "10"), exponent);
  return element("mrow", {}, ...sign, plain, leaf("mo", "·"), ten);
}

/** @param {Tree} tree */
const isApart = (tree) =>
  typeof tree === "string" ? APART.includes(tree) : !Array.isArray(tree) && isApart(tree.of[0]);

/** @param {Tree[]} trees */
const rowOf = (trees) =>
  trees.flatMap((tree, i) =>
    isApart(tree) && trees[i + 1] !== "("
      ? [nodeOf(tree), element("mspace", { width: ".18em" })]
      : [nodeOf(tree)],
  );

/**
 * @param {Tree} tree
 * @returns {Element}
 */
function nodeOf(tree) {
  if (Array.isArray(tree)) return element("mrow", {}, ...rowOf(tree));
  if (typeof tree !== "string") return shapeOf(tree);
  if (NUMBER.test(tree)) return numberOf(tree);
  if (tree === "Σ") return leaf("mo", "∑");
  if (tree.endsWith("′")) return element("msup", {}, nodeOf(tree.slice(0, -1)), leaf("mo", "′"));
  return leaf(SYMBOL.test(tree) ? "mi" : "mo", tree);
}

/** @param {Shape} tree */
function shapeOf({ shape, of }) {
  const [name] = SHAPES[shape];
  if (name === "mtext") return element(name, { class: `fm-${shape}` }, String(of[0]));
  const parts = of.map(nodeOf);
  if (shape !== "choose") return element(name, {}, ...parts);
  const stacked = element(name, { linethickness: "0" }, ...parts);
  return element("mrow", {}, leaf("mo", "("), stacked, leaf("mo", ")"));
}

/**
 * @param {Tree} tree
 * @returns {Element}
 */
export const math = (tree) =>
  element("math", { displaystyle: "true", "aria-label": said(tree) }, nodeOf(tree));

// Spaces at the edges are dropped. They only make a
// catalogue entry differ from one with the same word.
const SAID = {
  "=": tr("equals"),
  "−": tr("minus"),
  "+": tr("plus"),
  "·": tr(" times "),
  "/": tr("divided by"),
  "≤": tr("is at most"),
  "≥": tr("is at least"),
  "<": tr("is below"),
  ">": tr("is above"),
  Σ: tr("the sum"),
  "∝": tr("is in proportion to"),
  "∼": tr("is drawn out of"),
  "′": tr("prime"),
  "(": "",
  ")": "",
  ",": ",",
};

/**
 * The spoken form of a formula, for screen readers.
 * @param {Tree} tree
 * @returns {string}
 */
export const said = (tree) => inWords(tree).replace(/,$/, "");

/** @param {Tree} tree */
function inWords(tree) {
  const text = Array.isArray(tree) ? tree.map(inWords).join(" ") : oneSaid(tree);
  return text.replace(/\s+/g, " ").replace(/ ,/g, ",").replace(/,+/g, ",").trim();
}

function oneSaid(tree) {
  if (typeof tree === "string")
    return NUMBER.test(tree)
      ? numberSaid(tree)
      : (SAID[tree] ?? tree.replace("′", ` ${SAID["′"]}`));
  return SHAPES[tree.shape][1](...tree.of.map(inWords));
}

function numberSaid(text) {
  const minus = `${SAID["−"]} `;
  const [digits, exponent] = text.replace("-", minus).split("e");
  if (exponent === undefined) return digits;
  const power = String(Number(exponent)).replace("-", minus);
  return tr("{digits} times 10 to the power {power}", { digits, power });
}
