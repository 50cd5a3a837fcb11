// The choice between two readings of a prompt's special tokens, with the tokens of the chosen one.
// Shown only for a prompt that spells a special token.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { renderTerms } from "../../../visualizers/shared/terms.mjs";
import { formatCount, makeVisible, quoteText } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { SPECIAL_TOKEN } from "../../../visualizers/text/chat_turns.mjs";
import { StoppableQuestion } from "../jobs/question.mjs";
import { askWhenReady } from "../shell/questions.mjs";

/** @typedef {import("./form.mjs").Form} Form */
/** @typedef {{ text: string, special: boolean }} Token */
/** @typedef {{ tokens?: Token[], refused?: string }} Reading */
/** @typedef {{ names: string[], usual: string } & Record<string, Reading>} Found */

const PAUSE_MS = 400;
const NAME = "special_tokens";
const MAX_NAMED = 4;
// A text of letters, digits and common punctuation spells no special token, so no server is asked.
const UNUSUAL = /[^\p{L}\p{N}\s.,;:!?'"’“”„()–—-]/u;
/** @type {[string, string][]} */
const READINGS = [
  ["text", tr("Read as text")],
  ["parse", tr("Read as tokens")],
];

/** @param {{ prompt?: string | null, messages?: any[] | null }} asked */
const textOf = ({ prompt, messages }) =>
  messages ? messages.map(({ content }) => content ?? "").join("\n") : (prompt ?? "");

/** @param {Token} token */
const createToken = ({ text, special }) =>
  el(
    "span",
    { class: special ? "sp-token sp-special" : "sp-token", title: special ? SPECIAL_TOKEN : null },
    makeVisible(text),
  );

export class SpecialTokensField {
  #models;
  #forms;
  #asked;
  #timer = 0;
  #question = new StoppableQuestion();
  #known = "";
  /** @type {Found | null} */
  #found = null;

  /**
   * @param {string} id prefix of the elements' ids
   * @param {() => string[]} models names of the models; the first one's tokens are looked for
   * @param {() => Form[]} forms the forms whose parameter the choice sets
   * @param {() => any} asked returns the prompt, or the messages with their template arguments;
   *   ``chat``: whether the prompt continues the answer to messages
   * @param {string} [title]
   */
  constructor(
    id,
    models,
    forms,
    asked,
    title = tr("[special token|Special tokens] in the prompt"),
  ) {
    this.#models = models;
    this.#forms = forms;
    this.#asked = asked;
    this.buttons = READINGS.map(([value, title]) =>
      createButton(title, () => this.#choose(value), { class: "dp-btn pf-kind", value }),
    );
    const name = el("b", { id: `${id}-special` }, renderTerms(title));
    const group = { class: "pf-kinds", role: "group", "aria-labelledby": name.id };
    this.say = el("p", { class: "f-help", role: "status" });
    this.tokens = el("div", { class: "tk-preview sp-tokens" });
    this.box = el(
      "div",
      { class: "sp-box", hidden: true },
      name,
      el("div", group, this.buttons),
      this.say,
      this.tokens,
    );
    // Another model has other special tokens, and its field sends this event.
    document.addEventListener("change", () => this.look());
  }

  /** How special tokens are read by choice, empty for the usual reading. */
  get chosen() {
    return this.#forms()[0]?.values()[NAME] ?? "";
  }

  /** Update the field after a change of the prompt, once the user has stopped typing. */
  look() {
    clearTimeout(this.#timer);
    if (!UNUSUAL.test(textOf(this.#asked()))) return this.#show(null, "");
    this.#timer = setTimeout(() => this.#fetchReadings(), PAUSE_MS);
  }

  async #fetchReadings() {
    const { prompt, messages, template, chat } = this.#asked();
    const [model] = this.#models();
    const key = JSON.stringify([model, prompt, messages, template, chat]);
    if (key === this.#known) return this.#draw();
    const about = { action: NAME, model, prompt, messages, template, chat };
    const found = await this.#question.ask(() => askWhenReady(about));
    if (!found) return;
    // The server refuses a model that is not on its machine; the run then says what it read.
    this.#show(found.error || !found.names.length ? null : found, key);
  }

  /**
   * @param {Found | null} found
   * @param {string} key
   */
  #show(found, key) {
    if (!found) this.#question.forget();
    this.#known = key;
    this.#found = found;
    this.#draw();
  }

  #draw() {
    const found = this.#found;
    this.box.hidden = !found;
    if (!found) return;
    const chosen = this.chosen || found.usual;
    for (const button of this.buttons)
      button.setAttribute("aria-pressed", String(button.value === chosen));
    const { tokens, refused } = found[chosen];
    const names = found.names.slice(0, MAX_NAMED).map((name) => quoteText(makeVisible(name)));
    if (found.names.length > MAX_NAMED) names.push("…");
    this.say.textContent = tokens
      ? tr("It spells {names} and becomes {n} tokens:", {
          names: names.join(", "),
          n: formatCount(tokens.length),
        })
      : said(refused ?? "");
    this.tokens.replaceChildren(...(tokens ?? []).map(createToken));
  }

  /** @param {string} value */
  #choose(value) {
    const own = value === this.#found?.usual ? "" : value;
    for (const form of this.#forms())
      if (form.params.some(({ name }) => name === NAME)) form.take({ [NAME]: own });
    this.#draw();
    this.box.dispatchEvent(new Event("input", { bubbles: true }));
  }
}
