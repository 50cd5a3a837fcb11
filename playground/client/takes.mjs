// What models take beside text: those on offer are declared, others are looked at when somebody names them.
import { declared } from "./spec.mjs";

/** @typedef {{ takes: string[], needs: string | null }} Takes */

const TEXT = { takes: [], needs: null };

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
export function learn(model, { takes, needs = null }) {
  if (takes) learned.set(model, { takes, needs });
}
