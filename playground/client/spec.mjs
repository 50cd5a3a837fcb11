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
 * @property {(choice: string) => string} [named] says a choice in words; without it they are said as texts of the server are
 * @property {number} [minimum]
 * @property {number} [maximum]
 * @property {number} [step]
 * @property {[number, number] | null} [slider]
 * @property {[number, number] | null} [reach] the ends of a slider also where off is one of the values
 */

/** @type {any} */
let declaration = { strategies: [], models: [], groups: {}, drafts: {}, compare: null, seed: null };

/** Fulfilled when it is known which models cannot serve which strategies. */
let tried = Promise.resolve();

/**
 * Every parameter stands in the declaration once; a strategy names its own by their places.
 * @param {any} spec
 * @param {string} [refusals] where to ask which models cannot serve, if the declaration cannot say yet
 */
export function declare({ params, strategies, ...rest }, refusals) {
  const withParams = (s) => ({ ...s, params: s.params.map((place) => params[place]) });
  declaration = { ...rest, strategies: strategies.map(withParams) };
  if (refusals) tried = fetchRefusals(refusals);
}

// A model of which this is not heard is refused when it is asked to serve.
async function fetchRefusals(address) {
  const found = await fetch(address).then((answer) => (answer.ok ? answer.json() : {}));
  for (const strategy of declared().strategies)
    Object.assign(strategy.refused, found[strategy.name]);
}

/** @param {() => void} then what is done when it is known which models cannot serve */
export const whenTried = (then) => tried.then(then, () => {});

/** @returns {any} */
export const declared = () => declaration;

export const strategyOf = (name) => declared().strategies.find((s) => s.name === name);
