// The server's declaration: strategies with their parameters, models and presets.

/**
 * One control, as the server's spec declares it.
 * @typedef {object} Param
 * @property {string} name
 * @property {string} label
 * @property {string} help
 * @property {string} group
 * @property {boolean} optional
 * @property {string | null} term the glossary entry that explains it
 * @property {"flag" | "choice" | "number" | "text" | "method" | "arguments"} kind
 * @property {any} value the default
 * @property {string} [placeholder] the value that applies while the control is empty
 * @property {string[]} [choices]
 * @property {(choice: string) => string} [named] returns a choice in words; without it a
 *   choice is translated like any text of the server
 * @property {number} [minimum]
 * @property {number} [maximum]
 * @property {number} [step]
 * @property {[number, number] | null} [slider]
 * @property {[number, number] | null} [reach] the ends of a slider, even if the control can be off
 */

/** @type {any} */
let declaration = { strategies: [], models: [], groups: {}, drafts: {}, compare: null, seed: null };

/** Resolves when the page knows which models cannot run which strategies. */
let refusalsLoaded = Promise.resolve();

/**
 * Store the server's declaration. It lists every parameter once; strategies refer to them by index.
 * @param {any} spec
 * @param {string} [refusals] address of the list of unusable models, if the declaration lacks it
 */
export function setDeclaration({ params, strategies, ...rest }, refusals) {
  const withParams = (s) => ({ ...s, params: s.params.map((place) => params[place]) });
  declaration = { ...rest, strategies: strategies.map(withParams) };
  if (refusals) refusalsLoaded = fetchRefusals(refusals);
}

// If the list cannot be fetched, the server still refuses an unusable model at the run.
async function fetchRefusals(address) {
  const found = await fetch(address).then((answer) => (answer.ok ? answer.json() : {}));
  for (const strategy of getDeclaration().strategies)
    Object.assign(strategy.refused, found[strategy.name]);
}

/**
 * Call back once the list of unusable models is there, or has failed to load.
 * @param {() => void} then
 */
export const afterRefusals = (then) => refusalsLoaded.then(then, () => {});

/**
 * Return the server's declaration.
 * @returns {any}
 */
export const getDeclaration = () => declaration;

export const findStrategy = (name) => getDeclaration().strategies.find((s) => s.name === name);
