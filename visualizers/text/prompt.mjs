// The prompt before a text; of a chat, its turns.
import { el } from "../shared/dom.mjs";
import { makeVisible, tokensText, tokenText } from "../shared/text.mjs";
import { createMessages, createToken, createTurns } from "./chat_turns.mjs";
import { tokenKind } from "./words.mjs";

/**
 * @param {Run} run
 * @param {number[]} ids
 */
const toReadTokens = (run, ids) =>
  ids.map((id) => ({ text: tokenText(run, id), special: tokenKind(run, id) !== "" }));

/** @param {Content} token */
const createPlace = (token) => el("span", { class: "tx-place" }, token);

/**
 * The prompt of a run. A branch's prompt is its parent's text; the tokens added there are in bold.
 * @param {Run} run
 */
export function createPrompt(run) {
  if (run.served && run.messages?.length)
    return el("span", { class: "dp-prompt" }, createMessages(run.messages));
  if (run.prompt_turns?.length) return el("span", { class: "dp-prompt" }, createChatPrompt(run));
  const added = run.parent ? run.parent.token_ids.length : 0;
  const cut = run.prompt_ids.length - added;
  const tokens = toReadTokens(run, run.prompt_ids.slice(0, cut));
  const spelled = tokens.map(({ text, special }) => (special ? "" : text));
  const before =
    !run.prompt || spelled.join("") === run.prompt
      ? tokens.map((token) => createPlace(run.prompt && token.special ? "" : createToken(token)))
      : makeVisible(run.prompt);
  const after = run.prompt_ids.slice(cut).map((id) => createPlace(tokensText(run, [id])));
  return el(
    "span",
    { class: "dp-prompt" },
    before,
    added ? el("b", { class: "dp-added" }, after) : null,
  );
}

/** @param {Run} run */
const createChatPrompt = (run) => createTurns(toReadTokens(run, run.prompt_ids), run.prompt_turns);
