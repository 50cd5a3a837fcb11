// Preview of the tokens that a chat becomes through the model's template, before anything runs.
import { el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { formatCount } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { createTurns } from "../../../visualizers/text/chat_turns.mjs";
import { StoppableQuestion } from "../jobs/question.mjs";
import { askWhenReady } from "../shell/questions.mjs";

const PAUSE_MS = 400;

/**
 * @param {{ length: number }} tokens
 * @param {string} model
 */
const tokenCountText = ({ length }, model) =>
  length === 1
    ? tr("1 token of {model}.", { model })
    : tr("{n} tokens of {model}.", { n: formatCount(length), model });

/** The folded preview under the messages of a chat. */
export class ChatPreview {
  #models;
  #asked;
  #timer = 0;
  #question = new StoppableQuestion();
  #known = "";

  /**
   * @param {() => string[]} models names of the models; the first one's template is used
   * @param {() => any} asked returns the messages, the template arguments and the reading of special
   *   tokens in the messages
   */
  constructor(models, asked) {
    this.#models = models;
    this.#asked = asked;
    this.say = el("p", { class: "f-help", role: "status" });
    this.parts = el("div", { class: "tk-preview" });
    this.box = el(
      "details",
      { class: "tk-more tk-preview-box", ontoggle: () => this.look() },
      el("summary", {}, tr("What the model reads")),
      this.say,
      this.parts,
    );
  }

  /** Update the preview after a change, once the user has stopped typing. */
  look() {
    clearTimeout(this.#timer);
    if (!this.box.open || !this.box.isConnected) return;
    this.#timer = setTimeout(() => this.#fetchPreview(), PAUSE_MS);
  }

  async #fetchPreview() {
    const { messages, template, special_tokens } = this.#asked();
    if (!messages) return;
    const [model] = this.#models();
    const key = JSON.stringify([model, messages, template, special_tokens]);
    if (key === this.#known) return;
    if (!this.#known) this.say.textContent = tr("Reading…");
    const about = { action: "rendered", model, messages, template, special_tokens };
    const found = await this.#question.ask(() => askWhenReady(about));
    if (!found) return;
    this.#known = found.error ? "" : key;
    this.say.textContent = found.error ? said(found.error) : tokenCountText(found.tokens, model);
    this.parts.replaceChildren(...(found.error ? [] : createTurns(found.tokens, found.turns)));
  }
}
