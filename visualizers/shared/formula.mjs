// A formula as a tree, rendered as MathML or as spoken
// words. Browsers draw MathML without a library.
//
// A tree is a string (symbol, operator or number), an array
// of trees in a row, or a shape from SHAPES.
import { numberSign, quoteText } from "./text.mjs";
import { tr } from "./tr.mjs";

/**
 * @typedef {string | Tree[] | Shape} Tree
 * @typedef {{ shape: keyof typeof SHAPES, of: Tree[] }} Shape
 */

const NAMESPACE = "http://www.w3.org/1998/Math/MathML";
const NUMBER_PATTERN = /^-?\d[\d.,]*(?:e[+-]?\d+)?$/;
const SYMBOL_PATTERN = /^[A-Za-zα-ωℓ]$|^[a-zA-Z]{2,}$/;
// A thin space separates these function names from their argument.
const FUNCTION_NAMES = ["log", "max", "argmax"];
const DECIMAL_SIGN = numberSign("decimal");
// A comma between two numbers would read as a decimal sign in some languages.
const LIST_SEPARATOR = DECIMAL_SIGN === "," ? ";" : ",";

/** @param {string} number with a decimal point */
const localizeDecimal = (number) => number.replace(".", DECIMAL_SIGN);

/**
 * The MathML element of a shape, and a function from its spoken parts to its spoken form.
 * @typedef {[string, (...parts: string[]) => string]} ShapeForm
 */

/** @satisfies {Record<string, ShapeForm>} */
const SHAPES = {
  frac: ["mfrac", (a, b) => tr("{a} over {b},", { a, b })],
  sup: ["msup", (a, b) => tr("{a} to the power {b},", { a, b })],
  sub: ["msub", (a, b) => `${a} ${b}`],
  sqrt: ["msqrt", (a) => tr("the square root of {a},", { a })],
  under: ["munder", (a, b) => tr("{a} over {b}, of", { a, b })],
  between: ["munderover", (a, b, c) => tr("{a} from {b} to {c}, of", { a, b, c })],
  choose: ["mfrac", (a, b) => tr("{a} choose {b},", { a, b })],
  token: ["mtext", quoteText],
  words: ["mtext", (a) => a],
};

/** @param {keyof typeof SHAPES} shape */
const createShape =
  (shape) =>
  (/** @type {Tree[]} */ ...of) => ({ shape, of });
export const frac = createShape("frac");
export const sup = createShape("sup");
export const sub = createShape("sub");
export const sqrt = createShape("sqrt");
export const under = createShape("under");
export const between = createShape("between");
export const choose = createShape("choose");
export const token = createShape("token");
export const words = createShape("words");

/**
 * A negative number in parentheses, for use after an operator.
 * @param {Tree} number
 */
export const parenthesize = (number) =>
  typeof number === "string" && number.startsWith("-") ? ["(", number, ")"] : number;

/**
 * @param {string} name
 * @param {Record<string, string>} attrs
 * @param {...(Node | string)} children
 */
function createMathElement(name, attrs, ...children) {
  const node = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attrs)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/**
 * @param {string} name
 * @param {string} text
 */
const createLeaf = (name, text) => createMathElement(name, {}, text);

/**
 * A number such as "6.9e-4" as 6.9 · 10⁻⁴, with a typographic minus sign.
 * @param {string} text
 */
function numberToMath(text) {
  const [digits, power] = text.split("e");
  const sign = digits.startsWith("-") ? [createLeaf("mo", "−")] : [];
  const plain = createLeaf("mn", localizeDecimal(digits.replace("-", "")));
  if (power === undefined) return createMathElement("mrow", {}, ...sign, plain);
  const exponent = createLeaf("mn", String(Number(power)).replace("-", "−"));
  const ten = createMathElement("msup", {}, createLeaf("mn", "10"), exponent);
  return createMathElement("mrow", {}, ...sign, plain, createLeaf("mo", "·"), ten);
}

/**
 * @param {Tree} tree
 * @returns {boolean}
 */
const isFunctionName = (tree) =>
  typeof tree === "string"
    ? FUNCTION_NAMES.includes(tree)
    : !Array.isArray(tree) && isFunctionName(tree.of[0]);

/** @param {Tree[]} trees */
const rowToMath = (trees) =>
  trees.flatMap((tree, i) =>
    isFunctionName(tree) && trees[i + 1] !== "("
      ? [treeToMath(tree), createMathElement("mspace", { width: ".18em" })]
      : [treeToMath(tree)],
  );

/**
 * @param {Tree} tree
 * @returns {Element}
 */
function treeToMath(tree) {
  if (Array.isArray(tree)) return createMathElement("mrow", {}, ...rowToMath(tree));
  if (typeof tree !== "string") return shapeToMath(tree);
  if (NUMBER_PATTERN.test(tree)) return numberToMath(tree);
  if (tree === ",") return createLeaf("mo", LIST_SEPARATOR);
  if (tree === "Σ") return createLeaf("mo", "∑");
  if (tree.endsWith("′"))
    return createMathElement("msup", {}, treeToMath(tree.slice(0, -1)), createLeaf("mo", "′"));
  return createLeaf(SYMBOL_PATTERN.test(tree) ? "mi" : "mo", tree);
}

/** @param {Shape} tree */
function shapeToMath({ shape, of }) {
  const [name] = SHAPES[shape];
  if (name === "mtext") return createMathElement(name, { class: `fm-${shape}` }, String(of[0]));
  const parts = of.map(treeToMath);
  if (shape !== "choose") return createMathElement(name, {}, ...parts);
  const stacked = createMathElement(name, { linethickness: "0" }, ...parts);
  return createMathElement("mrow", {}, createLeaf("mo", "("), stacked, createLeaf("mo", ")"));
}

/**
 * @param {Tree} tree
 * @returns {Element}
 */
export const formulaToMath = (tree) =>
  createMathElement(
    "math",
    { displaystyle: "true", "aria-label": formulaToWords(tree) },
    treeToMath(tree),
  );

// Spaces at the edges are dropped. They only make a
// catalogue entry differ from one with the same word.
/** @type {Record<string, string>} */
const SPOKEN_SYMBOLS = {
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
export const formulaToWords = (tree) => treeToWords(tree).replace(/,$/, "");

/**
 * @param {Tree} tree
 * @returns {string}
 */
function treeToWords(tree) {
  const text = Array.isArray(tree) ? tree.map(treeToWords).join(" ") : nodeToWords(tree);
  return text.replace(/\s+/g, " ").replace(/ ,/g, ",").replace(/,+/g, ",").trim();
}

/** @param {string | Shape} tree */
function nodeToWords(tree) {
  if (typeof tree === "string")
    return NUMBER_PATTERN.test(tree)
      ? numberToWords(tree)
      : (SPOKEN_SYMBOLS[tree] ?? tree.replace("′", ` ${SPOKEN_SYMBOLS["′"]}`));
  /** @type {ShapeForm} */
  const [, toWords] = SHAPES[tree.shape];
  return toWords(...tree.of.map(treeToWords));
}

/** @param {string} text */
function numberToWords(text) {
  const minus = `${SPOKEN_SYMBOLS["−"]} `;
  const [digits, exponent] = localizeDecimal(text.replace("-", minus)).split("e");
  if (exponent === undefined) return digits;
  const power = String(Number(exponent)).replace("-", minus);
  return tr("{digits} times 10 to the power {power}", { digits, power });
}
