// A prompt that was a chat: its tokens by who says them, and what the template put around them.
import { el } from "../shared/dom.mjs";
import { visible } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @typedef {{ text: string, special?: boolean }} Read */
/** @typedef {{ role: string, start: number, end: number }} Told */

/** What a token says of itself that stands in no text. */
export const SPECIAL = tr("A special token");

const SPOKEN = ["system", "user", "assistant", "tool"];

/**
 * A token as it was read, in a box where it is a special one.
 * @param {Read} token
 */
export const tokenOf = ({ text, special }) =>
  special ? el("span", { class: "tn-special", title: SPECIAL }, visible(text)) : visible(text);

/**
 * One box for each part of a prompt.
 * @param {Read[]} tokens
 * @param {Told[]} turns
 * @returns {HTMLElement[]}
 */
export const turnsOf = (tokens, turns) =>
  turns.map(({ role, start, end }) => {
    const said = SPOKEN.includes(role);
    const own = tokens.slice(start, end).map(tokenOf);
    return el(
      "span",
      { class: `tn-turn tn-${said ? role : "template"}` },
      said ? el("b", { class: "tn-who" }, role) : null,
      el("span", { class: "tn-text" }, own),
    );
  });
