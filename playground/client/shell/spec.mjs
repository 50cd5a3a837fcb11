// The server's declaration: strategies with their parameters, models and presets.

/**
 * One control, as the server's spec declares it.
 * @typedef {object} Param
 * @property {string} name
 * @property {string} label
 * @property {string} [plain_label] the label as a dial
 * @property {string} help
 * @property {string} group
 * @property {boolean} optional
 * @property {string | null} term the glossary entry that explains it
 * @property {"flag" | "choice" | "number" | "text" | "method" | "arguments" | "layers" | "grammar"} kind
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

/**
 * A strategy as the page declares it. The rest is for single views.
 * @typedef {{
 *   name: string, title: string, plain_name: string, group: string, draft: string, model: string,
 *   assistant: string, params: Param[], presets: any[], dials: string[],
 *   refused: Record<string, string>, [rest: string]: any,
 * }} StrategySpec
 */

/** @typedef {{ name: string, title: string, [rest: string]: any }} ModelSpec */

/**
 * What the server declares for the page. The rest is for single tabs.
 * @typedef {object} DeclaredParts
 * @property {StrategySpec[]} strategies
 * @property {ModelSpec[]} models
 * @property {boolean} typed_models whether other models may be typed
 * @property {boolean} addresses whether models behind an address may be typed
 * @property {string[]} served_views names of the views of a run that a server computed
 * @property {string[]} model_views names of the views that need the run's model on this machine
 * @property {{ name: string, title: string, bytes: number }[]} installable models that the page can install
 * @property {Record<string, any>} groups
 * @property {Record<string, string>} strategy_groups key of a group of strategies -> its title, in order
 * @property {Record<string, Record<string, string[]>>} drafts
 * @typedef {DeclaredParts & Record<string, any>} Declaration
 */

/** @type {Declaration} */
let declaration = {
  strategies: [],
  models: [],
  typed_models: true,
  addresses: false,
  served_views: [],
  model_views: [],
  installable: [],
  groups: {},
  strategy_groups: {},
  drafts: {},
  compare: null,
  seed: null,
};

/** Resolves when the page knows which models cannot run which strategies. */
let refusalsLoaded = Promise.resolve();

/**
 * Store the server's declaration. It lists every parameter once; strategies refer to them by index.
 * @param {any} spec
 * @param {string} [refusals] address of the list of unusable models, if the declaration lacks it
 */
export function setDeclaration({ params, strategies, ...rest }, refusals) {
  /** @param {any} s */
  const withParams = (s) => ({
    ...s,
    params: s.params.map((/** @type {number} */ place) => params[place]),
  });
  declaration = { ...rest, strategies: strategies.map(withParams) };
  if (refusals) refusalsLoaded = fetchRefusals(refusals);
}

/** @type {(() => void)[]} */
const onModels = [];

/**
 * Call back whenever the offered models change.
 * @param {() => void} then
 */
export const afterModelsChange = (then) => onModels.push(then);

/**
 * Replace the parts of the declaration that list models, after one was installed.
 * @param {Pick<Declaration, "models" | "drafts" | "installable">} parts
 */
export function updateModels({ models, drafts, installable }) {
  declaration = { ...declaration, models, drafts, installable };
  for (const then of onModels) then();
}

/**
 * If the list cannot be fetched, the server still refuses an unusable model at the run.
 * @param {string} address
 */
async function fetchRefusals(address) {
  /** @type {Record<string, Record<string, string>>} strategy -> model -> reason */
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
 * @returns {Declaration}
 */
export const getDeclaration = () => declaration;

/**
 * Return a strategy that this page has.
 * @param {string} name
 */
export function getStrategy(name) {
  const found = findStrategy(name);
  if (!found) throw new Error(name);
  return found;
}

/** @param {string} name */
export const findStrategy = (name) => getDeclaration().strategies.find((s) => s.name === name);
