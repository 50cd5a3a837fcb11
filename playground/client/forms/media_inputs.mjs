// Which media a model takes in addition to text. The server declares this for the offered models;
// for any other model it is requested when the model is named.
import { ask, connectedAsk } from "../shell/questions.mjs";
import { declared } from "../shell/spec.mjs";

/**
 * Options of a speech model, and how many seconds of sound it hears.
 * @typedef {{ languages: string[], tasks: string[], timestamps: boolean, seconds: number | null }} Speech
 */
/** @typedef {{ takes: string[], needs: string | null, speech: Speech | null }} Takes */

/** @type {Takes} */
const TEXT = { takes: [], needs: null, speech: null };

/** @type {Map<string, Takes>} */
const learned = new Map();

/**
 * Return a model's media inputs; text only while they are unknown.
 * @param {string} model
 * @returns {Takes}
 */
export function takesOf(model) {
  const offered = declared().models.find((m) => m.name === model);
  return learned.get(model) ?? (offered?.takes ? offered : TEXT);
}

/** Return whether a model's media inputs are known. */
export const isKnown = (model) =>
  learned.has(model) || declared().models.some((m) => m.name === model && m.takes);

/**
 * Store a model's media inputs as the server reported them.
 * @param {string} model
 * @param {Partial<Takes>} told
 */
export function learn(model, { takes, needs = null, speech = null }) {
  if (takes) learned.set(model, { takes, needs, speech });
}

// Models already requested: each is requested once.
const asked = new Set();

/**
 * Request the media inputs of models that are still unknown. A form may come from a stranger's
 * link, so the server looks only at models that are already on its machine.
 * @param {string[]} models
 * @returns {Promise<boolean>} whether any request was sent
 */
export async function lookInto(models) {
  const unknown = models.filter((model) => model && !isKnown(model) && !asked.has(model));
  for (const model of unknown) asked.add(model);
  if (!unknown.length) return false;
  await connectedAsk;
  const { name: strategy } = declared().strategies[0];
  const about = { action: "preflight", strategy, here: true };
  const look = async (model) => learn(model, await ask({ ...about, model }));
  await Promise.all(unknown.map(look));
  return true;
}
