// A chat prompt as boxes: the tokens of each speaker, and those that the chat template inserted.
import { isChatRole, roleName } from "../shared/chat_roles.mjs";
import { el } from "../shared/dom.mjs";
import { makeVisible } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @typedef {{ text: string, special?: boolean }} Read */
/** @typedef {{ role: string, start: number, end: number }} Told */

/** Title of a special token, which is not part of the text. */
export const SPECIAL_TOKEN = tr("A special token");

/**
 * The text of a prompt token; a special token gets a box.
 * @param {Read} token
 */
export const createToken = ({ text, special }) =>
  special
    ? el("span", { class: "tn-special", title: SPECIAL_TOKEN }, makeVisible(text))
    : makeVisible(text);

/**
 * One box for each message of a chat, whose tokens are unknown.
 * @param {{ role?: any, content?: any }[]} messages
 */
export const createMessages = (messages) =>
  createTurns(
    messages.map(({ content }) => ({ text: String(content ?? ""), special: false })),
    messages.map(({ role }, i) => ({ role: String(role), start: i, end: i + 1 })),
  );

/**
 * What a prompt shows: its text, or a box for each message.
 * @param {{ prompt: string | null, messages: any[] | null }} asked
 */
export const createAsked = ({ prompt, messages }) =>
  messages ? createMessages(messages) : makeVisible(prompt ?? "");

/**
 * One box for each turn of a chat prompt.
 * @param {Read[]} tokens
 * @param {Told[]} turns
 * @returns {HTMLElement[]}
 */
export const createTurns = (tokens, turns) =>
  turns.map(({ role, start, end }) => {
    const said = isChatRole(role);
    const own = tokens.slice(start, end).map(createToken);
    return el(
      "span",
      { class: `tn-turn tn-${said ? role : "template"}` },
      said ? el("b", { class: "tn-role" }, roleName(role)) : null,
      el("span", { class: "tn-text" }, own),
    );
  });
