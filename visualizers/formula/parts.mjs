// The type of a formula, and parts that several formulas share.
import { sub, under } from "../shared/formula.mjs";

/** @typedef {import("../shared/formula.mjs").Tree} Tree */

/**
 * One formula. `draw` is called once with symbols and once
 * with numbers; it returns the formula's lines.
 * @typedef {object} Form
 * @property {string} title
 * @property {Record<string, Tree>} symbols
 * @property {(v: Record<string, any>, x: Tree, is: string | null, line: any) => Tree[]} draw
 * @property {string} where meaning of the symbols, with terms in brackets
 * @property {string} [none] shown if a step has no numbers for it
 */

/**
 * "= result", empty for a formula in symbols.
 * @param {string | null} is
 * @returns {Tree[]}
 */
export const equals = (is) => (is === null ? [] : [["=", is]]);
/**
 * @param {Tree} name
 * @param {Tree} x
 * @returns {Tree[]}
 */
export const applyTo = (name, x) => [name, "(", x, ")"];
/**
 * @param {Tree} below
 * @param {...Tree} body
 * @returns {Tree[]}
 */
export const sumOver = (below, ...body) => [under("Σ", below), ...body];
/** @param {Tree} x */
export const z = (x) => sub("z", x);
