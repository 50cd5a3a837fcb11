// The field of a grammar: examples to begin with, and a check of what is typed.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { StoppableQuestion } from "../jobs/question.mjs";
import { askWhenReady } from "../shell/questions.mjs";
import { Field } from "./field.mjs";

/** @typedef {{ begins?: string, refused?: string, error?: string }} Found */

const PAUSE_MS = 500;
/** @type {[string, Record<string, unknown>][]} */
const EXAMPLES = [
  [tr("Allowed texts"), { choice: [" yes", " no"] }],
  [tr("Pattern"), { regex: " [a-z]{1,8} (ball|doll)\\." }],
  [
    tr("JSON schema"),
    {
      json: {
        type: "object",
        properties: { toy: { enum: ["ball", "doll"] }, big: { type: "boolean" } },
        required: ["toy", "big"],
        additionalProperties: false,
      },
    },
  ],
  [tr("Rules"), { grammar: 'start: " " NUMBER " toys."\nNUMBER: /[1-9][0-9]?/' }],
];

export class GrammarField extends Field {
  #timer = 0;
  // The server drops an earlier question of this field, so that typing costs one check at a time.
  #question = new StoppableQuestion({ latestOnly: true });
  #checked = "";
  #ask;

  /**
   * @param {import("../shell/spec.mjs").Param} param
   * @param {string} id
   * @param {(about: object) => Promise<any>} [ask] asks the server
   */
  constructor(param, id, ask = askWhenReady) {
    super(param, id);
    this.#ask = ask;
    this.input.setAttribute("rows", "4");
    this.answer = el("p", { class: "f-help", role: "status", hidden: true });
    const buttons = EXAMPLES.map(([title, example]) =>
      createButton(title, () => this.#take(example), { class: "dp-btn" }),
    );
    const label = tr("Examples of a structured output");
    const examples = el(
      "div",
      { class: "f-examples", role: "group", "aria-label": label },
      buttons,
    );
    this.input.after(this.answer, examples);
    this.input.addEventListener("input", () => this.#look());
  }

  /** @param {Record<string, unknown>} example */
  #take(example) {
    this.value = JSON.stringify(example, null, 1);
    this.input.dispatchEvent(new Event("input", { bubbles: true }));
  }

  /** Check the text once the user has stopped typing. */
  #look() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#check(), PAUSE_MS);
  }

  async #check() {
    const text = this.input.value.trim();
    if (text === this.#checked) return;
    this.#checked = text;
    if (!text) {
      this.#question.forget();
      return this.#show(null);
    }
    this.#show(await this.#question.ask((press) => this.#ask({ action: "grammar", press, text })));
  }

  /** @param {Found | null} found */
  #show(found) {
    // A newer text is being checked.
    if (!found && this.input.value.trim()) return;
    const { begins, refused, error } = found ?? {};
    const says = begins
      ? tr("This can be used. A text begins with {begins}.", { begins: said(begins) })
      : said(refused ?? error ?? "");
    this.answer.textContent = says;
    this.answer.hidden = !says;
    this.answer.classList.toggle("f-bad", !begins);
    this.input.setAttribute("aria-invalid", String(Boolean(refused)));
  }
}
