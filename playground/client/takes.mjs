// What models take beside text: those on offer are declared, others are looked at when somebody names them.
import { ask, connectedAsk } from "./ask.mjs";
import { declared } from "./spec.mjs";

/**
 * What can be told of a sound, and how many seconds of it are heard.
 * @typedef {{ languages: string[], tasks: string[], timestamps: boolean, seconds: number | null }} Speech
 */
/** @typedef {{ takes: string[], needs: string | null, speech: Speech | null }} Takes */

/** @type {Takes} */
const TEXT = { takes: [], needs: null, speech: null };

/** @type {Map<string, Takes>} */
const learned = new Map();

/**
 * @param {string} model
 * @returns {Takes}
 */
export function takesOf(model) {
  const offered = declared().models.find((m) => m.name === model);
  return learned.get(model) ?? (offered?.takes ? offered : TEXT);
}

/** Whether anybody has said what a model takes. */
export const isKnown = (model) =>
  learned.has(model) || declared().models.some((m) => m.name === model && m.takes);

/**
 * @param {string} model
 * @param {Partial<Takes>} told
 */
export function learn(model, { takes, needs = null, speech = null }) {
  if (takes) learned.set(model, { takes, needs, speech });
}

// Models that were asked about, each once.
const asked = new Set();

/**
 * Ask what models take of which nobody has said so, as where a form names one. The form may be that of anybody's link,
 * so only models of this machine are looked at.
 * @param {string[]} models
 * @returns {Promise<boolean>} whether anything was asked
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
