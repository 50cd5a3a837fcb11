// Settings compared: those of a form with those of a run, and those of a preset with either.
import { toldApart, toldIn } from "../../visualizers/shared/speech.mjs";
import { tr } from "../../visualizers/shared/tr.mjs";
import { declared, strategyOf } from "./spec.mjs";
import { keyOf } from "./talk.mjs";

/** @typedef {import("./spec.mjs").Param} Param */

const MOST_NAMED = 3;

/** What a run has come to that goes on no more. */
export const ENDED = ["finished", "stopped", "failed"];

// A list may be typed as JSON or as words between commas.
function listOf(text) {
  try {
    const list = JSON.parse(text);
    if (Array.isArray(list)) return list;
  } catch {
    // It is no JSON, so it is words.
  }
  return text
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
}

const isList = (text) => /^\s*\[/.test(text);
const isObject = (text) => /^\s*\{/.test(text);

// The same text for the same names and values, whatever their order and their spaces.
function spelled(text) {
  try {
    return JSON.stringify(Object.entries(JSON.parse(text)).sort(([a], [b]) => (a < b ? -1 : 1)));
  } catch {
    return text;
  }
}

/**
 * Whether two values of a control mean the same.
 * @param {any} a
 * @param {any} b
 */
export function same(a, b) {
  const [one, two] = [a ?? "", b ?? ""].map(String);
  if (one === two) return true;
  if (isObject(one) && isObject(two)) return spelled(one) === spelled(two);
  if (!isList(one) && !isList(two)) return false;
  return JSON.stringify(listOf(one).map(String)) === JSON.stringify(listOf(two).map(String));
}

/**
 * The values that are not those a form begins with.
 * @param {Param[]} params
 * @param {Record<string, any>} values
 */
export const changedOf = (params, values) =>
  Object.fromEntries(
    params
      .filter(({ name, value }) => !same(values[name], value))
      .map(({ name }) => [name, values[name]]),
  );

/**
 * The settings of a run that are not the defaults, each with its name and its value in words.
 * @param {Run} run
 * @returns {[string, string][] | undefined}
 */
export function changedIn(run) {
  const params = strategyOf(run.strategy)?.params;
  if (!params || !run.form) return undefined;
  const changed = changedOf(params, run.form.values);
  const own = params.filter((p) => p.name in changed);
  return [
    ...toldIn(run.form.speech),
    ...own.map((p) => /** @type {[string, string]} */ ([p.label, said(changed[p.name])])),
  ];
}

/** A value of a control in words. */
export const said = (value) => {
  if (value === "" || value === null || value === undefined) return tr("off");
  if (typeof value === "boolean") return value ? tr("on") : tr("off");
  return String(value);
};

const title = (name) =>
  declared()
    .models.find((m) => m.name === name)
    ?.title.split(" · ")[0] ?? name;

/**
 * What a form says otherwise than the one that made a run, each in a few words.
 * @param {any} form of the run
 * @param {any} asked what the controls say
 * @returns {string[]}
 */
export function differences(form, asked) {
  const found = [];
  const known = form.messages || form.prompt !== null;
  if (known && (form.prompt !== asked.prompt || keyOf(form) !== keyOf(asked)))
    found.push(asked.messages ? tr("other messages") : tr("another prompt"));
  const named = (label, was, now) => found.push(`${label} ${was} → ${now}`);
  if ((form.image ?? null) !== (asked.image ?? null)) found.push(tr("another picture"));
  if ((form.audio ?? null) !== (asked.audio ?? null)) found.push(tr("another sound"));
  for (const told of toldApart(form.speech, asked.speech)) named(...told);
  if (form.model !== asked.model) named(tr("Model"), title(form.model), title(asked.model));
  if (form.assistant !== asked.assistant)
    named(tr("Draft model"), title(form.assistant), title(asked.assistant));
  if (!same(form.seed, asked.seed)) named(tr("Seed"), form.seed, said(asked.seed));
  for (const { name, label } of strategyOf(form.strategy)?.params ?? [])
    if (!same(form.values[name], asked.params[name]))
      named(label, said(form.values[name]), said(asked.params[name]));
  return found;
}

/**
 * @param {string[]} found
 */
export function sentenceOf(found) {
  if (!found.length) return "";
  const more = found.length - MOST_NAMED;
  const named = found.slice(0, MOST_NAMED).join(", ");
  return more > 0
    ? tr("Settings have changed since this run: {named} and {more} more. Run to see it.", {
        named,
        more,
      })
    : tr("Settings have changed since this run: {named}. Run to see it.", { named });
}

/**
 * The form that a preset fills.
 * @param {any} strategy
 * @param {any} preset
 */
export function formOf(strategy, preset) {
  const values = strategy.params.map(({ name, value }) => [name, preset.params[name] ?? value]);
  return {
    strategy: strategy.name,
    prompt: preset.prompt,
    messages: preset.messages,
    template: preset.template,
    image: preset.image,
    audio: preset.audio,
    speech: null,
    model: preset.model || strategy.model,
    assistant: strategy.assistant,
    seed: String(preset.seed),
    values: Object.fromEntries(values),
  };
}

/**
 * The preset whose settings a form holds, undefined where it holds others.
 * @param {any} form
 */
export function presetOf(form) {
  const strategy = strategyOf(form.strategy);
  const asked = { ...form, params: form.values };
  return strategy?.presets.find((p) => !differences(formOf(strategy, p), asked).length);
}
