// Compares the settings of a form, a run and a preset, and describes the differences.
import { diffSpeechSettings, listSpeechSettings } from "../../../visualizers/shared/speech.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { findStrategy, getDeclaration } from "../shell/spec.mjs";
import { chatKey } from "./chat_field.mjs";
import { drawerTitle, withoutAddress } from "./model_address.mjs";

/** @typedef {import("../shell/spec.mjs").Param} Param */

const MAX_NAMED = 3;

/** Statuses of a run that has ended. */
export const ENDED_STATUSES = ["finished", "stopped", "failed"];

/**
 * A list may be typed as JSON or as words separated by commas.
 * @param {string} text
 */
function parseList(text) {
  try {
    const list = JSON.parse(text);
    if (Array.isArray(list)) return list;
  } catch {
    // Not JSON: read it as words.
  }
  return text
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
}

/** @param {string} text */
const isList = (text) => /^\s*\[/.test(text);
/** @param {string} text */
const isObject = (text) => /^\s*\{/.test(text);

/**
 * Rewrite a JSON object so that order of names and spaces make no difference.
 * @param {string} text
 */
function canonicalJson(text) {
  try {
    return JSON.stringify(Object.entries(JSON.parse(text)).sort(([a], [b]) => (a < b ? -1 : 1)));
  } catch {
    return text;
  }
}

/**
 * Return whether two values of a control mean the same, however a list or object is typed.
 * @param {any} a
 * @param {any} b
 */
export function isSameValue(a, b) {
  const [one, two] = [a ?? "", b ?? ""].map(String);
  if (one === two) return true;
  if (isObject(one) && isObject(two)) return canonicalJson(one) === canonicalJson(two);
  if (!isList(one) && !isList(two)) return false;
  return JSON.stringify(parseList(one).map(String)) === JSON.stringify(parseList(two).map(String));
}

/**
 * Return the values that differ from a form's defaults.
 * @param {Param[]} params
 * @param {Record<string, any>} values
 */
export const changedValues = (params, values) =>
  Object.fromEntries(
    params
      .filter(({ name, value }) => !isSameValue(values[name], value))
      .map(({ name }) => [name, values[name]]),
  );

/**
 * Return the settings of a run that differ from the defaults, as [label, value in words].
 * Undefined if its strategy or its form is unknown.
 * @param {Run} run
 * @returns {[string, string][] | undefined}
 */
export function changedSettings(run) {
  const params = findStrategy(run.strategy)?.params;
  if (!params || !run.form) return undefined;
  const changed = changedValues(params, run.form.values);
  const own = params.filter((p) => p.name in changed);
  return [
    ...listSpeechSettings(run.form.speech),
    ...own.map((p) => /** @type {[string, string]} */ ([p.label, said(changed[p.name])])),
  ];
}

/**
 * Return a control's value in words.
 * @param {unknown} value
 */
export const said = (value) => {
  if (value === "" || value === null || value === undefined) return tr("off");
  if (typeof value === "boolean") return value ? tr("on") : tr("off");
  return String(value);
};

/**
 * Return the label of a strategy's dial, in everyday words.
 * @param {Param} param
 */
export const dialLabel = ({ plain_label, label }) => plain_label ?? label;

/** @param {string} name */
const modelTitle = (name) =>
  getDeclaration()
    .models.find((m) => m.name === name)
    ?.title.split(" · ")[0] ??
  (withoutAddress(name) || tr("An address…"));

/**
 * List how the controls differ from the form that made a run, each in a few words.
 * @param {any} form of the run
 * @param {any} asked the controls' current values
 * @returns {string[]}
 */
export function describeDifferences(form, asked) {
  const found = [];
  const known = form.messages || form.prompt !== null;
  if (known && (form.prompt !== asked.prompt || chatKey(form) !== chatKey(asked)))
    found.push(asked.messages ? tr("other messages") : tr("another prompt"));
  /**
   * @param {string} label
   * @param {any} was
   * @param {any} now
   */
  const named = (label, was, now) => found.push(`${label} ${was} → ${now}`);
  if ((form.image ?? null) !== (asked.image ?? null)) found.push(tr("another picture"));
  if ((form.audio ?? null) !== (asked.audio ?? null)) found.push(tr("another sound"));
  for (const told of diffSpeechSettings(form.speech, asked.speech)) named(...told);
  if (form.model !== asked.model)
    named(tr("Model"), modelTitle(form.model), modelTitle(asked.model));
  if (drawerTitle(form.values) !== drawerTitle(asked.params))
    named(tr("Who draws the tokens"), drawerTitle(form.values), drawerTitle(asked.params));
  if (form.assistant !== asked.assistant)
    named(tr("Draft model"), modelTitle(form.assistant), modelTitle(asked.assistant));
  if (!isSameValue(form.seed, asked.seed)) named(tr("Seed"), form.seed, said(asked.seed));
  const { params = [], dials = [] } = findStrategy(form.strategy) ?? {};
  for (const param of params) {
    const { name, label } = param;
    if (!isSameValue(form.values[name], asked.params[name]))
      named(
        dials.includes(name) ? dialLabel(param) : label,
        said(form.values[name]),
        said(asked.params[name]),
      );
  }
  return found;
}

/**
 * Return the sentence that names the changed settings, empty if there are none.
 * @param {string[]} found
 */
export function changesSentence(found) {
  if (!found.length) return "";
  const more = found.length - MAX_NAMED;
  const named = found.slice(0, MAX_NAMED).join(", ");
  return more > 0
    ? tr("Settings have changed since this run: {named} and {more} more. Press Run to see it.", {
        named,
        more,
      })
    : tr("Settings have changed since this run: {named}. Press Run to see it.", { named });
}

/**
 * Return the form with a preset's values; what the preset leaves out has its default.
 * @param {any} strategy
 * @param {any} preset
 */
export function formFromPreset(strategy, preset) {
  const values = strategy.params.map((/** @type {Param} */ { name, value }) => [
    name,
    preset.params[name] ?? value,
  ]);
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
 * Return the preset that a form equals, undefined if it equals none.
 * @param {any} form
 */
export function findPreset(form) {
  const strategy = findStrategy(form.strategy);
  const asked = { ...form, params: form.values };
  return strategy?.presets.find(
    (p) => !describeDifferences(formFromPreset(strategy, p), asked).length,
  );
}
