// The chat field: messages with a role and a text each. A run's answer can become the next message.
import { roleName } from "../../../visualizers/shared/chat_roles.mjs";
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

/** @typedef {Record<string, any> & { role: string, content: any }} Message */

const ROLES = ["system", "user", "assistant"];
const TURN_ROWS = 2;
const EMPTY_MESSAGE = { role: "user", content: "" };
const GENERATION_FLAG = "add_generation_prompt";
const TEMPLATE_HINT = tr(
  "A JSON object for the model’s chat template, for example {example}. (template)",
  { example: '{"enable_thinking": false}' },
);

// One message. Parts without a control here, such as a tool call, are passed through unchanged.
class MessageTurn {
  /**
   * @param {Message} message
   * @param {{ changed: () => void, go: () => void, move: (turn: MessageTurn, by: number) => void, drop: (turn: MessageTurn) => void }} talk
   */
  constructor(message, talk) {
    this.message = message;
    const roles = ROLES.includes(message.role) ? ROLES : [...ROLES, message.role];
    this.role = el(
      "select",
      { class: "tk-role", onchange: () => talk.changed() },
      roles.map((r) => el("option", { value: r, selected: r === message.role }, roleName(r))),
    );
    this.area = el("textarea", { rows: TURN_ROWS, class: "tk-text" });
    this.area.value = typeof message.content === "string" ? message.content : "";
    this.area.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.shiftKey || event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      talk.go();
    });
    /**
     * @param {string} text
     * @param {() => void} what
     */
    const act = (text, what) => createButton(text, what, { class: "dp-btn tk-act" });
    this.up = act("↑", () => talk.move(this, -1));
    this.down = act("↓", () => talk.move(this, 1));
    this.remove = act("✕", () => talk.drop(this));
    const head = el("div", { class: "tk-head" }, this.role, this.up, this.down, this.remove);
    this.item = el("li", { class: "tk-turn" }, head, this.area);
  }

  get value() {
    const { message, area } = this;
    const untouched = typeof message.content !== "string" && area.value === "";
    const content = untouched ? message.content : area.value;
    return { ...message, role: this.role.value, content };
  }

  /**
   * Update the labels and buttons to the message's position.
   * @param {number} at index, from 0
   * @param {number} of number of messages
   */
  place(at, of) {
    const message = tr("Message {n} of {total}", { n: at + 1, total: of });
    this.item.dataset.role = this.role.value;
    this.role.setAttribute("aria-label", tr("{message}: who says it", { message }));
    this.area.setAttribute("aria-label", `${message}: ${roleName(this.role.value)}`);
    for (const [node, title] of /** @type {const} */ ([
      [this.up, tr("{message}: move up", { message })],
      [this.down, tr("{message}: move down", { message })],
      [this.remove, tr("{message}: remove", { message })],
    ])) {
      node.setAttribute("aria-label", title);
      node.title = title;
    }
    this.up.disabled = at === 0;
    this.down.disabled = at === of - 1;
    this.remove.disabled = of === 1;
  }
}

/** The list of messages of a prompt. */
export class ChatField {
  /** @type {MessageTurn[]} */
  #turns = [];
  // The latest run's answer, with the key of the messages it belongs to; null for none.
  /** @type {{ asked: string, text: string } | null} */
  #answer = null;
  #go;

  /**
   * @param {string} id prefix of the elements' ids
   * @param {() => void} go called on Ctrl+Enter or Shift+Enter
   */
  constructor(id, go) {
    this.#go = go;
    this.list = el("ol", { class: "tk-list", "aria-label": tr("Messages") });
    this.continued = el("input", { type: "checkbox", id: `${id}-continued` });
    this.continues = el(
      "div",
      { class: "f-field f-flag tk-continued" },
      this.continued,
      el("label", { for: `${id}-continued` }, tr("Go on with the last message")),
      el(
        "p",
        { class: "f-help" },
        tr("The answer goes on where the assistant’s last message ends. (continue_final_message)"),
      ),
    );
    this.template = el("textarea", {
      rows: 1,
      id: `${id}-template`,
      placeholder: "{}",
      "aria-describedby": `${id}-template-help`,
    });
    const given = el(
      "details",
      { class: "tk-more" },
      el("summary", {}, tr("Template arguments")),
      el("label", { class: "dp-sr", for: `${id}-template` }, tr("Template arguments")),
      this.template,
      el("p", { class: "f-help", id: `${id}-template-help` }, TEMPLATE_HINT),
    );
    this.given = given;
    this.reply = createButton(tr("Add the answer and reply"), () => this.#addReply(), {
      class: "dp-btn tk-reply",
    });
    this.reply.hidden = true;
    const add = createButton(tr("Add a message"), () => this.#addMessage(), {
      class: "dp-btn tk-add",
    });
    this.system = createButton(tr("Add a system message"), () => this.#addSystem(), {
      class: "dp-btn tk-add",
      title: tr("What the assistant is and how it answers; it comes before all other messages"),
    });
    this.box = el(
      "div",
      { class: "tk-chat" },
      this.list,
      el("div", { class: "tk-acts" }, this.system, add, this.reply),
      this.continues,
      given,
    );
    this.box.addEventListener("input", () => this.#updateControls());
    this.show([EMPTY_MESSAGE], {});
  }

  /**
   * Return the messages and the template's arguments.
   * @returns {{ messages: Message[], template: any }}
   */
  values() {
    const messages = this.#turns.map((turn) => turn.value);
    const given = parseArguments(this.template.value);
    const anew = messages.at(-1)?.role === "assistant" && !this.continued.checked;
    // Anything but a JSON object is sent as typed: the server's error says what is wrong.
    if (typeof given === "string") return { messages, template: given };
    return { messages, template: anew ? { ...given, [GENERATION_FLAG]: true } : given };
  }

  /**
   * Show messages and template arguments.
   * @param {Message[]} messages
   * @param {any} template
   */
  show(messages, template) {
    const { [GENERATION_FLAG]: anew, ...given } = template ?? {};
    this.#setMessages(messages);
    this.continued.checked = anew !== true;
    this.template.value = Object.keys(given).length ? JSON.stringify(given) : "";
    this.given.open = this.given.open || this.template.value !== "";
    this.#updateControls();
  }

  /** Whether every message is empty. */
  get blank() {
    return this.#turns.every((turn) => turn.value.content === "");
  }

  focus() {
    this.#turns.at(-1)?.area.focus();
  }

  /**
   * Offer a run's answer as the next message, for as long as the messages are unchanged.
   * @param {{ messages: Message[] | null, template: any } | null} asked the run's prompt
   * @param {string} text
   */
  answered(asked, text) {
    this.#answer = asked?.messages ? { asked: chatKey(asked), text } : null;
    this.#updateControls();
  }

  changed() {
    this.#updateControls();
    this.box.dispatchEvent(new Event("input", { bubbles: true }));
  }

  go() {
    this.#go();
  }

  /**
   * Move a message, and keep the focus on the pressed button.
   * @param {MessageTurn} turn
   * @param {number} by
   */
  move(turn, by) {
    const at = this.#turns.indexOf(turn);
    this.#turns.splice(at, 1);
    this.#turns.splice(at + by, 0, turn);
    this.list.replaceChildren(...this.#turns.map((t) => t.item));
    this.changed();
    const pressed = by < 0 ? turn.up : turn.down;
    // A disabled button cannot have the focus, so it goes to the other one at the end of the list.
    (pressed.disabled ? (by < 0 ? turn.down : turn.up) : pressed).focus();
  }

  /**
   * Remove a message.
   * @param {MessageTurn} turn
   */
  drop(turn) {
    const at = this.#turns.indexOf(turn);
    this.#turns.splice(at, 1);
    turn.item.remove();
    this.changed();
    this.#turns[Math.min(at, this.#turns.length - 1)].area.focus();
  }

  /** @param {Message[]} messages */
  #setMessages(messages) {
    this.#turns = (messages.length ? messages : [EMPTY_MESSAGE]).map(
      (m) => new MessageTurn(m, this),
    );
    this.list.replaceChildren(...this.#turns.map((turn) => turn.item));
  }

  // A new message has the role that did not write the last one.
  #addMessage(role = this.#turns.at(-1)?.value.role === "user" ? "assistant" : "user") {
    this.#turns.push(new MessageTurn({ role, content: "" }, this));
    this.list.append(this.#turns.at(-1)?.item ?? "");
    this.changed();
    this.focus();
  }

  #addSystem() {
    const turn = new MessageTurn({ role: "system", content: "" }, this);
    this.#turns.unshift(turn);
    this.list.prepend(turn.item);
    this.changed();
    turn.area.focus();
  }

  #addReply() {
    const text = this.#answer?.text ?? "";
    const { messages } = this.values();
    const last = messages.at(-1);
    const answer =
      last?.role === "assistant" && this.continued.checked
        ? [...messages.slice(0, -1), { ...last, content: `${last.content}${text}` }]
        : [...messages, { role: "assistant", content: text.trim() }];
    this.continued.checked = true;
    this.#setMessages([...answer, EMPTY_MESSAGE]);
    this.changed();
    this.focus();
  }

  #updateControls() {
    this.#turns.forEach((turn, at) => {
      turn.place(at, this.#turns.length);
    });
    const asked = this.values();
    const last = asked.messages.at(-1);
    this.system.hidden = asked.messages.some(({ role }) => role === "system");
    this.continues.hidden = last?.role !== "assistant";
    this.reply.hidden = this.#answer?.asked !== chatKey(asked);
  }
}

/** @param {string} text */
function parseArguments(text) {
  if (!text.trim()) return {};
  try {
    const read = JSON.parse(text);
    if (read && typeof read === "object" && !Array.isArray(read)) return read;
  } catch {
    // Not JSON.
  }
  return text;
}

/**
 * @param {any} value
 * @returns {any}
 */
const sortKeys = (value) =>
  value && typeof value === "object" && !Array.isArray(value)
    ? Object.fromEntries(
        Object.keys(value)
          .sort()
          .map((name) => [name, sortKeys(value[name])]),
      )
    : Array.isArray(value)
      ? value.map(sortKeys)
      : value;

/**
 * Return a key that is equal for equal messages and template arguments.
 * @param {{ messages?: any, template?: any }} asked
 */
export const chatKey = ({ messages, template }) =>
  JSON.stringify(sortKeys([messages ?? null, template || {}]));
