// What a model is asked: a text that it continues, or the messages of a chat.
import { button, el } from "../../visualizers/shared/dom.mjs";
import { tr } from "../../visualizers/shared/tr.mjs";
import { Reading } from "./reading.mjs";
import { Talk } from "./talk.mjs";

const PROMPT_ROWS = 3;

export class PromptField {
  /** @type {Talk | null} */
  #talk = null;
  /** @type {(() => Talk) | null} null where it is a text only */
  #begin = null;
  // What the latest run read, and its answer.
  /** @type {[any, string] | null} */
  #answer = null;
  // Whether a model may be given something else in its place.
  #optional = false;
  // What stood there without being typed.
  #shown = "";

  /**
   * @param {string} id what the elements' ids begin with
   * @param {{ prompt?: string, rows?: number, go: () => void, models?: () => string[] }} options
   *   go: what Ctrl or Shift with the Enter key does; models: the models that read it, by name;
   *   without them it is a text only
   */
  constructor(id, { prompt = "", rows = PROMPT_ROWS, go, models }) {
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
    if (!models) {
      this.box.append(this.area);
      return;
    }
    // Most never talk: the messages have elements once somebody does.
    this.#begin = () => {
      this.reading = new Reading(models, () => this.ask());
      const talk = new Talk(id, go);
      talk.box.append(this.reading.box);
      this.box.append(talk.box);
      return talk;
    };
    const kind = (name, title, chat) =>
      button(name, () => this.#choose(chat), { class: "dp-btn pf-kind", title });
    this.asText = kind(tr("Text"), tr("The model continues a text"), false);
    this.asChat = kind(tr("Chat"), tr("The model answers messages"), true);
    const group = { class: "pf-kinds", role: "group", "aria-label": tr("Kind of prompt") };
    const kinds = el("div", group, this.asText, this.asChat);
    this.box.append(kinds, this.area);
    this.box.addEventListener("input", () => this.reading?.look());
    this.#turn(false);
  }

  /**
   * Another model is chosen: what a preset says to one that reads text is nothing to say of a picture.
   * @param {boolean} on whether nothing has to be written
   */
  optional(on) {
    if (on === this.#optional) return;
    this.#optional = on;
    this.#name();
    const { area } = this;
    if (area.value === (on ? this.#shown : "")) area.value = on ? "" : this.#shown;
  }

  #name() {
    const text = this.#optional ? tr("Prompt (optional)") : tr("Prompt");
    this.label.textContent = this.chat ? tr("Messages") : text;
  }

  get chat() {
    return this.asChat?.getAttribute("aria-pressed") === "true";
  }

  // What the controls say: a prompt, or messages with what their template is given.
  ask() {
    if (!this.chat || !this.#talk) return { prompt: this.area.value };
    return { prompt: null, ...this.#talk.values() };
  }

  /**
   * Show what was asked; where neither is known, as of a branch, all stays.
   * @param {{ prompt?: string | null, messages?: any[] | null, template?: any }} asked
   */
  show({ prompt, messages, template }) {
    if (messages && this.#begin) {
      this.#messages().show(messages, template);
      this.#turn(true);
    } else if (prompt !== null && prompt !== undefined) {
      this.area.value = prompt;
      if (prompt) this.#shown = prompt;
      this.#turn(false);
    }
    this.reading?.look();
  }

  /**
   * A run has ended: its text can become the next message.
   * @param {{ messages: any[] | null, template: any }} asked
   * @param {string} text
   */
  answered(asked, text) {
    this.#answer = [asked, text];
    this.#talk?.answered(asked, text);
  }

  #messages() {
    if (!this.#talk && this.#begin) {
      this.#talk = this.#begin();
      if (this.#answer) this.#talk.answered(...this.#answer);
    }
    return this.#talk;
  }

  // Somebody changes from one to the other: what was written first is the first message.
  #choose(chat) {
    if (chat === this.chat) return;
    const talk = chat ? this.#messages() : null;
    if (talk?.blank)
      talk.show([{ role: "user", content: this.area.value }], talk.values().template);
    this.#turn(chat);
    this.box.dispatchEvent(new Event("input", { bubbles: true }));
  }

  #turn(chat) {
    this.asText?.setAttribute("aria-pressed", String(!chat));
    this.asChat?.setAttribute("aria-pressed", String(chat));
    this.area.hidden = chat;
    if (this.#talk) this.#talk.box.hidden = !chat;
    this.#name();
    // A label of nothing in sight would name nothing.
    if (chat) this.label.removeAttribute("for");
    else this.label.setAttribute("for", this.area.id);
  }
}
