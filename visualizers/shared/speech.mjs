// Texts for the parameters of a speech model: language, task and timestamps.
import { pageLanguage, tr } from "./tr.mjs";

/**
 * Name of a language in the page's language, or its code if the browser does not know it.
 * @param {string} code
 */
export function languageName(code) {
  try {
    return new Intl.DisplayNames([pageLanguage()], { type: "language" }).of(code) ?? code;
  } catch {
    return code;
  }
}

const TASK_TEXT = new Map([
  ["transcribe", tr("transcribe")],
  ["translate", tr("translate to English")],
]);

/**
 * Parameters of a speech model: name in a request, label, and a function from a value to its text.
 */
export const SPEECH_PARAMETERS = [
  {
    name: "language",
    label: tr("Language"),
    words: (/** @type {unknown} */ code) =>
      code ? languageName(String(code)) : tr("heard by itself"),
  },
  {
    name: "task",
    label: tr("Task"),
    words: (/** @type {unknown} */ task) =>
      task ? (TASK_TEXT.get(String(task)) ?? String(task)) : tr("left to the model"),
  },
  {
    name: "return_timestamps",
    label: tr("Times"),
    words: (/** @type {unknown} */ on) => (on ? tr("on") : tr("off")),
  },
];

/**
 * Label and text of every parameter that has a value.
 * @param {Record<string, any> | null | undefined} speech
 * @returns {[string, string][]}
 */
export const listSpeechSettings = (speech) =>
  SPEECH_PARAMETERS.filter(({ name }) => speech?.[name]).map(({ name, label, words }) => [
    label,
    words(speech?.[name]),
  ]);

/**
 * Label, old text and new text of every parameter that differs.
 * @param {Record<string, any> | null | undefined} was
 * @param {Record<string, any> | null | undefined} now
 * @returns {[string, string, string][]}
 */
export const diffSpeechSettings = (was, now) =>
  SPEECH_PARAMETERS.map(
    ({ name, label, words }) =>
      /** @type {[string, string, string]} */ ([label, words(was?.[name]), words(now?.[name])]),
  ).filter(([, before, after]) => before !== after);
