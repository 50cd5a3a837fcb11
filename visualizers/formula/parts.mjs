// What formulas are made of: their type, and pieces that several of them have.
import { sub, under } from "../shared/formula.mjs";

/** @typedef {import("../shared/formula.mjs").Tree} Tree */

/**
 * One formula. `draw` is called with the symbols and with the numbers in their place; it returns parts
 * that may stand below each other.
 * @typedef {object} Form
 * @property {string} title
 * @property {Record<string, Tree>} symbols
 * @property {(v: Record<string, any>, x: Tree, is: string | null, line: any) => Tree[]} draw
 * @property {string} where what the symbols are, with terms in brackets
 * @property {string} [none] what is said where a step has no numbers for it
 */

/** The result of what is filled in stands behind it. */
export const equals = (is) => (is === null ? [] : [["=", is]]);
export const of = (name, x) => [name, "(", x, ")"];
export const total = (below, ...body) => [under("Σ", below), ...body];
export const z = (x) => sub("z", x);
