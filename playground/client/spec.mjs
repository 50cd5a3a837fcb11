// What the server declares: strategies with their parameters, models, presets of comparisons.

/**
 * One control, as playground/spec.py declares it.
 * @typedef {object} Param
 * @property {string} name
 * @property {string} label
 * @property {string} help
 * @property {string} group
 * @property {boolean} optional
 * @property {string | null} term the glossary's entry that explains it
 * @property {"flag" | "choice" | "number" | "text" | "method" | "arguments"} kind
 * @property {any} value what it begins with
 * @property {string} [placeholder] what holds where the control is empty
 * @property {string[]} [choices]
 * @property {number} [minimum]
 * @property {number} [maximum]
 * @property {number} [step]
 * @property {[number, number] | null} [slider]
 * @property {[number, number] | null} [reach] the ends of a slider also where off is one of the values
 */

/** @type {any} */
let declaration = { strategies: [], models: [], groups: {}, drafts: {}, compare: null, seed: null };

// Every parameter stands in the declaration once; a strategy names its own by their places.
export function declare({ params, strategies, ...rest }) {
  const withParams = (s) => ({ ...s, params: s.params.map((place) => params[place]) });
  declaration = { ...rest, strategies: strategies.map(withParams) };
}

/** @returns {any} */
export const declared = () => declaration;

export const strategyOf = (name) => declared().strategies.find((s) => s.name === name);
