// What a model that transcribes speech is told besides its sound; only what the chosen models can be told is there.
import { el } from "../../visualizers/shared/dom.mjs";
import { TOLD } from "../../visualizers/shared/speech.mjs";
import { spoken, tr } from "../../visualizers/shared/tr.mjs";
import { Field } from "./field.mjs";

/** @typedef {import("./takes.mjs").Speech} Speech */
/** @typedef {{ language: string, task: string, return_timestamps: boolean }} Said */

/** @type {Said} */
const NOTHING = { language: "", task: "", return_timestamps: false };
/** @type {Record<keyof Said, string>} */
const HELPS = {
  language: tr("What is spoken in it."),
  task: tr("Written in the language that is spoken, or in English."),
  return_timestamps: tr("It also writes when something is said, as tokens."),
};

const union = (lists) => [...new Set(lists.flat())];

// What a form says beside what can be chosen: whoever runs it is told that the model does not know it.
const withSaid = (known, value, open) =>
  value && !known.includes(value) && (known.length || open) ? [...known, value] : known;

export class SpeechFields {
  /** @type {Map<string, Field>} */
  #fields = new Map();
  /** @type {Said} */
  #said = NOTHING;
  /** @type {Pick<Speech, "languages" | "tasks" | "timestamps">} */
  #known = { languages: [], tasks: [], timestamps: false };
  // What was followed last.
  /** @type {Speech[]} */
  #each = [];
  #open = false;
  #drawn = "";
  #origin = "";
  #id;

  /** @param {string} id what the elements' ids begin with */
  constructor(id) {
    this.#id = id;
    this.box = el("div", {
      class: "md-speech",
      role: "group",
      "aria-label": tr("What the model is told of the sound"),
    });
    this.box.hidden = true;
    this.box.addEventListener("input", () => {
      this.#origin = "yours";
    });
  }

  /**
   * Other models are chosen; what was said stays.
   * @param {Speech[]} each what those of them can be told that are told anything
   * @param {boolean} open whether there are models of which nobody has said yet what they can be told
   */
  follow(each, open) {
    [this.#each, this.#open] = [each, open];
    const said = this.#values();
    this.#known = {
      languages: union(each.map((one) => one.languages)),
      tasks: union(each.map((one) => one.tasks)),
      timestamps: each.some((one) => one.timestamps),
    };
    const { languages, tasks, timestamps } = this.#known;
    this.#draw({
      language: withSaid(languages, said.language, open),
      task: withSaid(tasks, said.task, open),
      return_timestamps: timestamps || (open && said.return_timestamps),
    });
  }

  /** @param {{ language: string[], task: string[], return_timestamps: boolean }} offered */
  #draw(offered) {
    const drawn = JSON.stringify(offered);
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    this.#said = this.#values();
    const there = TOLD.filter(({ name }) => offered[name] === true || offered[name].length);
    this.#fields = new Map(there.map((told) => [told.name, this.#fieldOf(told, offered)]));
    for (const [name, field] of this.#fields) {
      field.value = this.#said[name];
      field.came(this.#origin);
    }
    this.box.replaceChildren(...[...this.#fields.values()].map((field) => field.box));
    this.box.hidden = !there.length;
  }

  #fieldOf({ name, label, words }, offered) {
    const sorted = (codes) => [...codes].sort((a, b) => words(a).localeCompare(words(b), spoken()));
    const common = { name, label, help: HELPS[name], group: "", optional: false, term: null };
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

  /** @returns {Said} */
  #values() {
    const there = [...this.#fields].map(([name, field]) => [name, field.value]);
    return { ...this.#said, ...Object.fromEntries(there) };
  }

  /**
   * What a form tells a model, null for nothing.
   * @param {Speech} [model] what one of several can be told; without it all that is there is told
   */
  ask(model) {
    const said = this.#values();
    const told = Object.entries(said).filter(
      ([name, value]) =>
        value && this.#fields.has(name) && (!model || this.#fits(model, name, value)),
    );
    return told.length ? Object.fromEntries(told) : null;
  }

  // What none of the models knows is said to all that have anything of the kind: they say that they do not.
  #fits(model, name, value) {
    if (name === "return_timestamps") return model.timestamps;
    const of = (/** @type {Pick<Speech, "languages" | "tasks">} */ one) =>
      name === "task" ? one.tasks : one.languages;
    return of(model).includes(value) || (of(model).length > 0 && !of(this.#known).includes(value));
  }

  /** @param {Record<string, any> | null | undefined} speech as a form says it */
  show(speech) {
    this.#said = {
      language: String(speech?.language ?? ""),
      task: String(speech?.task ?? ""),
      return_timestamps: speech?.return_timestamps === true,
    };
    // A form may say what cannot be chosen yet, so they are drawn anew.
    this.#fields = new Map();
    [this.#drawn, this.#origin] = ["", "run"];
    this.follow(this.#each, this.#open);
  }
}
