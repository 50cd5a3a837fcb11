// The prompt field: a text to continue, or the messages of a chat.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { getDeclaration } from "../shell/spec.mjs";
import { ChatField } from "./chat_field.mjs";
import { ChatPreview } from "./chat_preview.mjs";
import { SpecialTokensField } from "./special_tokens_field.mjs";

/** @typedef {import("./form.mjs").Form} Form */

const PROMPT_ROWS = 3;
const CHAT_TITLE = tr("The model answers messages");

/** The prompt of a form, as text or as chat messages. */
export class PromptField {
  /** @type {ChatField | null} */
  #talk = null;
  /** @type {(() => ChatField) | null} null where it is text only */
  #begin = null;
  // Prompt and answer of the latest run, for a chat field that is created later.
  /** @type {[any, string] | null} */
  #answer = null;
  // Whether the model accepts a picture or a sound without a prompt.
  #optional = false;
  // The latest text that a preset or a run filled in.
  #shown = "";
  #models;

  /**
   * @param {string} id prefix of the elements' ids
   * @param {{ prompt?: string, rows?: number, go: () => void, models: () => string[], forms: () => Form[], chat?: boolean }} options
   *   go: called on Ctrl+Enter or Shift+Enter; models: names of the models that read the prompt;
   *   forms: the parameters of their runs; chat: whether messages may take the prompt's place
   */
  constructor(id, { prompt = "", rows = PROMPT_ROWS, go, models, forms, chat = true }) {
    this.#models = models;
    this.area = el("textarea", { id: `${id}-input`, rows });
    this.area.value = prompt;
    this.#shown = prompt;
    this.area.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.shiftKey || event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      go();
    });
    this.label = el("label", { for: `${id}-input` }, tr("Prompt"));
    this.box = el("div", { class: "f-field pf-prompt", id }, this.label);
    this.special = new SpecialTokensField(id, models, forms, () => this.ask());
    this.box.addEventListener("input", () => this.special.look());
    if (!chat) {
      this.box.append(this.area, this.special.box);
      return;
    }
    // Most visitors never chat, so the chat's elements are created on first use.
    this.#begin = () => {
      const asked = () => ({ ...this.ask(), special_tokens: this.special.chosen });
      this.reading = new ChatPreview(models, asked);
      const talk = new ChatField(id, go);
      talk.box.append(this.reading.box);
      this.special.box.before(talk.box);
      return talk;
    };
    /**
     * @param {string} name
     * @param {string} title
     * @param {boolean} chat
     */
    const kind = (name, title, chat) =>
      createButton(name, () => this.#chooseKind(chat), { class: "dp-btn pf-kind", title });
    this.asText = kind(tr("Text"), tr("The model continues a text"), false);
    this.asChat = kind(tr("Chat"), CHAT_TITLE, true);
    const group = { class: "pf-kinds", role: "group", "aria-label": tr("Kind of prompt") };
    const kinds = el("div", group, this.asText, this.asChat);
    this.box.append(this.area, kinds, this.special.box);
    this.box.addEventListener("input", () => this.reading?.look());
    this.#setKind(false);
  }

  /**
   * Make the prompt optional or required after the model has changed. A preset's text is cleared
   * for a model with a picture or sound, and returns for a text model.
   * @param {boolean} on whether the prompt may stay empty
   */
  optional(on) {
    this.#offerChat();
    if (on === this.#optional) return;
    this.#optional = on;
    this.#updateLabel();
    const { area } = this;
    if (area.value === (on ? this.#shown : "")) area.value = on ? "" : this.#shown;
  }

  // Chat needs a model with a chat template. What is not known yet is offered.
  #offerChat() {
    if (!this.asChat) return;
    const { models } = getDeclaration();
    const without = models.find((m) => m.chat === false && this.#models().includes(m.name));
    this.asChat.setAttribute("aria-disabled", String(Boolean(without)));
    this.asChat.title = without
      ? tr("{name} has no chat template, so it takes a prompt and no messages.", {
          name: without.title.split(" · ")[0],
        })
      : CHAT_TITLE;
  }

  #updateLabel() {
    const text = this.#optional ? tr("Prompt (optional)") : tr("Prompt");
    this.label.textContent = this.chat ? tr("Messages") : text;
  }

  get chat() {
    return this.asChat?.getAttribute("aria-pressed") === "true";
  }

  // Return the prompt, or the messages with their template arguments.
  ask() {
    if (!this.chat || !this.#talk) return { prompt: this.area.value };
    return { prompt: null, ...this.#talk.values() };
  }

  /**
   * Show a prompt or messages. If both are unknown, as for a branch, nothing changes.
   * @param {{ prompt?: string | null, messages?: any[] | null, template?: any }} asked
   */
  show({ prompt, messages, template }) {
    if (messages && this.#begin) {
      this.#ensureChatField()?.show(messages, template);
      this.#setKind(true);
    } else if (prompt !== null && prompt !== undefined) {
      this.area.value = prompt;
      if (prompt) this.#shown = prompt;
      this.#setKind(false);
    }
    this.reading?.look();
    this.special.look();
  }

  /**
   * Offer the text of a run that has ended as the next message.
   * @param {{ messages: any[] | null, template: any }} asked
   * @param {string} text
   */
  answered(asked, text) {
    this.#answer = [asked, text];
    this.#talk?.answered(asked, text);
  }

  #ensureChatField() {
    if (!this.#talk && this.#begin) {
      this.#talk = this.#begin();
      if (this.#answer) this.#talk.answered(...this.#answer);
    }
    return this.#talk;
  }

  /**
   * Switch between text and chat. The text becomes the first message of an empty chat.
   * @param {boolean} chat
   */
  #chooseKind(chat) {
    if (chat === this.chat || (chat && this.asChat?.ariaDisabled === "true")) return;
    const talk = chat ? this.#ensureChatField() : null;
    if (talk?.blank)
      talk.show([{ role: "user", content: this.area.value }], talk.values().template);
    this.#setKind(chat);
    this.box.dispatchEvent(new Event("input", { bubbles: true }));
  }

  /** @param {boolean} chat */
  #setKind(chat) {
    this.asText?.setAttribute("aria-pressed", String(!chat));
    this.asChat?.setAttribute("aria-pressed", String(chat));
    this.area.hidden = chat;
    if (this.#talk) this.#talk.box.hidden = !chat;
    this.#updateLabel();
    // In chat mode the text area is hidden, so the label must not point to it.
    if (chat) this.label.removeAttribute("for");
    else this.label.setAttribute("for", this.area.id);
  }
}
