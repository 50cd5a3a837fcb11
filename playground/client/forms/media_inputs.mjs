// Which media a model takes in addition to text. The server declares this for the offered models;
// for any other model it is requested when the model is named.
import { askServer, questionsReady } from "../shell/questions.mjs";
import { getDeclaration } from "../shell/spec.mjs";

/**
 * Options of a speech model, and how many seconds of sound it hears.
 * @typedef {{ languages: string[], tasks: string[], timestamps: boolean, seconds: number | null }} Speech
 */
/** @typedef {{ takes: string[], needs: string | null, speech: Speech | null }} Takes */

/** @type {Takes} */
const TEXT_ONLY = { takes: [], needs: null, speech: null };

/** @type {Map<string, Takes>} */
const knownInputs = new Map();

/**
 * Return a model's media inputs; text only while they are unknown.
 * @param {string} model
 * @returns {Takes}
 */
export function getMediaInputs(model) {
  const offered = getDeclaration().models.find((m) => m.name === model);
  const { takes, needs, speech } = offered?.takes ? offered : TEXT_ONLY;
  return knownInputs.get(model) ?? { takes, needs, speech };
}

/**
 * Return whether a model's media inputs are known.
 * @param {string} model
 */
export const hasKnownInputs = (model) =>
  knownInputs.has(model) || getDeclaration().models.some((m) => m.name === model && m.takes);

/**
 * Store a model's media inputs as the server reported them.
 * @param {string} model
 * @param {Partial<Takes>} told
 */
export function saveMediaInputs(model, { takes, needs = null, speech = null }) {
  if (takes) knownInputs.set(model, { takes, needs, speech });
}

// Models already requested: each is requested once.
const requestedModels = new Set();

/**
 * Request the media inputs of models that are still unknown. A form may come from a stranger's
 * link, so the server looks only at models that are already on its machine.
 * @param {string[]} models
 * @returns {Promise<boolean>} whether any request was sent
 */
export async function fetchMediaInputs(models) {
  const unknown = models.filter(
    (model) => model && !hasKnownInputs(model) && !requestedModels.has(model),
  );
  for (const model of unknown) requestedModels.add(model);
  if (!unknown.length) return false;
  await questionsReady;
  const { name: strategy } = getDeclaration().strategies[0];
  const about = { action: "preflight", strategy, here: true };
  /** @param {string} model */
  const look = async (model) => saveMediaInputs(model, await askServer({ ...about, model }));
  await Promise.all(unknown.map(look));
  return true;
}
