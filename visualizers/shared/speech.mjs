// What a speech model is told besides its sound, in words.
import { spoken, tr } from "./tr.mjs";

/**
 * A language by its name, in the language of the page's reader; one that nobody knows by what it is called here.
 * @param {string} code
 */
export function languageName(code) {
  try {
    return new Intl.DisplayNames([spoken()], { type: "language" }).of(code) ?? code;
  } catch {
    return code;
  }
}

const TASKS = new Map([
  ["transcribe", tr("transcribe")],
  ["translate", tr("translate to English")],
]);

/** What can be told: its name in a request, what it is called, and a value of it in words. */
export const TOLD = [
  {
    name: "language",
    label: tr("Language"),
    words: (code) => (code ? languageName(String(code)) : tr("heard by itself")),
  },
  {
    name: "task",
    label: tr("Task"),
    words: (task) => (task ? (TASKS.get(task) ?? String(task)) : tr("left to the model")),
  },
  {
    name: "return_timestamps",
    label: tr("Times"),
    words: (on) => (on ? tr("on") : tr("off")),
  },
];

/**
 * What a model was told, each with its name.
 * @param {Record<string, any> | null | undefined} speech
 * @returns {[string, string][]}
 */
export const toldIn = (speech) =>
  TOLD.filter(({ name }) => speech?.[name]).map(({ name, label, words }) => [
    label,
    words(speech[name]),
  ]);

/**
 * What is told otherwise, each with its name and what it was and is.
 * @param {Record<string, any> | null | undefined} was
 * @param {Record<string, any> | null | undefined} now
 * @returns {[string, string, string][]}
 */
export const toldApart = (was, now) =>
  TOLD.map(
    ({ name, label, words }) =>
      /** @type {[string, string, string]} */ ([label, words(was?.[name]), words(now?.[name])]),
  ).filter(([, before, after]) => before !== after);
