// Fields for a speech model's options: language, task and timestamps. Shows only the options that
// the chosen models have.
import { el } from "../../../visualizers/shared/dom.mjs";
import { SPEECH_PARAMETERS } from "../../../visualizers/shared/speech.mjs";
import { pageLanguage, tr } from "../../../visualizers/shared/tr.mjs";
import { Field } from "./field.mjs";

/** @typedef {import("./media_inputs.mjs").Speech} Speech */
/** @typedef {{ language: string, task: string, return_timestamps: boolean }} SpeechValues */

/** @type {SpeechValues} */
const EMPTY_SPEECH = { language: "", task: "", return_timestamps: false };
/** @type {Record<string, string>} */
const HELP_TEXTS = {
  language: tr("What is spoken in it."),
  task: tr("Written in the language that is spoken, or in English."),
  return_timestamps: tr("It also writes when something is said, as tokens."),
};

/** @param {string[][]} lists */
const uniqueItems = (lists) => [...new Set(lists.flat())];

/**
 * Keep a form's value even if no model offers it: the server then answers why it does not fit.
 * @param {string[]} known
 * @param {string} value
 * @param {boolean} open
 */
const withCurrentValue = (known, value, open) =>
  value && !known.includes(value) && (known.length || open) ? [...known, value] : known;

/** The group of fields with speech options. */
export class SpeechFields {
  /** @type {Map<string, Field>} */
  #fields = new Map();
  /** @type {SpeechValues} */
  #said = EMPTY_SPEECH;
  /** @type {Pick<Speech, "languages" | "tasks" | "timestamps">} */
  #known = { languages: [], tasks: [], timestamps: false };
  // Arguments of the latest update.
  /** @type {Speech[]} */
  #each = [];
  #open = false;
  #drawn = "";
  #id;

  /** @param {string} id prefix of the elements' ids */
  constructor(id) {
    this.#id = id;
    this.box = el("div", {
      class: "md-speech",
      role: "group",
      "aria-label": tr("What the model should know about the sound"),
    });
    this.box.hidden = true;
  }

  /**
   * Update the fields after other models were chosen; the chosen values stay.
   * @param {Speech[]} each options of the models that have any
   * @param {boolean} open whether the options of some models are still unknown
   */
  follow(each, open) {
    [this.#each, this.#open] = [each, open];
    const said = this.#currentValues();
    this.#known = {
      languages: uniqueItems(each.map((one) => one.languages)),
      tasks: uniqueItems(each.map((one) => one.tasks)),
      timestamps: each.some((one) => one.timestamps),
    };
    const { languages, tasks, timestamps } = this.#known;
    this.#render({
      language: withCurrentValue(languages, said.language, open),
      task: withCurrentValue(tasks, said.task, open),
      return_timestamps: timestamps || (open && said.return_timestamps),
    });
  }

  /** @param {Record<string, any>} offered */
  #render(offered) {
    const drawn = JSON.stringify(offered);
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    this.#said = this.#currentValues();
    const there = SPEECH_PARAMETERS.filter(
      ({ name }) => offered[name] === true || offered[name].length,
    );
    this.#fields = new Map(there.map((one) => [one.name, this.#createField(one, offered)]));
    /** @type {Record<string, string | boolean>} */
    const values = this.#said;
    for (const [name, field] of this.#fields) field.value = values[name];
    this.box.replaceChildren(...[...this.#fields.values()].map((field) => field.box));
    this.box.hidden = !there.length;
  }

  /**
   * @param {(typeof SPEECH_PARAMETERS)[number]} parameter
   * @param {Record<string, any>} offered
   */
  #createField({ name, label, words }, offered) {
    /** @param {string[]} codes */
    const sorted = (codes) =>
      [...codes].sort((a, b) => words(a).localeCompare(words(b), pageLanguage()));
    const common = { name, label, help: HELP_TEXTS[name], group: "", optional: false, term: null };
    const param =
      name === "return_timestamps"
        ? { ...common, kind: /** @type {const} */ ("flag"), value: false }
        : {
            ...common,
            kind: /** @type {const} */ ("choice"),
            value: "",
            choices: ["", ...sorted(offered[name])],
            named: words,
          };
    return new Field(param, `${this.#id}-${name}`);
  }

  /** @returns {SpeechValues} */
  #currentValues() {
    const there = [...this.#fields].map(([name, field]) => [name, field.value]);
    return { ...this.#said, ...Object.fromEntries(there) };
  }

  /**
   * Return the chosen options, null for none.
   * @param {Speech} [model] the options of one model; without it all chosen options are returned
   */
  ask(model) {
    const said = this.#currentValues();
    const told = Object.entries(said).filter(
      ([name, value]) =>
        value && this.#fields.has(name) && (!model || this.#isAcceptedBy(model, name, value)),
    );
    return told.length ? Object.fromEntries(told) : null;
  }

  /**
   * A value that no model knows goes to every model with that option: each answers with an error.
   * @param {Speech} model
   * @param {string} name
   * @param {string | boolean} value
   */
  #isAcceptedBy(model, name, value) {
    if (name === "return_timestamps") return model.timestamps;
    const of = (/** @type {Pick<Speech, "languages" | "tasks">} */ one) =>
      name === "task" ? one.tasks : one.languages;
    return (
      of(model).includes(String(value)) ||
      (of(model).length > 0 && !of(this.#known).includes(String(value)))
    );
  }

  /**
   * Show a form's options.
   * @param {Record<string, any> | null | undefined} speech as in a form
   */
  show(speech) {
    this.#said = {
      language: String(speech?.language ?? ""),
      task: String(speech?.task ?? ""),
      return_timestamps: speech?.return_timestamps === true,
    };
    // Redraw the fields: the form may hold values that were not offered before.
    this.#fields = new Map();
    this.#drawn = "";
    this.follow(this.#each, this.#open);
  }
}
