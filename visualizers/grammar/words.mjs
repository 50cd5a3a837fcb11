// The sentences about a text under its grammar: how much it had to push, and what it did at one token.
import { said } from "../shared/server_text.mjs";
import {
  formatFixed,
  formatPercent,
  makeVisible,
  pluralText,
  quoteText,
  wordLabel,
} from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @import { GrammarText, GrammarToken } from "../shared/trace.d.ts" */

/** @param {string} text */
const quote = (text) => quoteText(makeVisible(text));

/**
 * How much the grammar had to push, in one or two sentences.
 * @param {Run} run
 * @param {GrammarText} text
 * @param {number[]} ids tokens of the text
 */
export function pushText(run, { tokens, hardest }, ids) {
  if (hardest === null) return tr("How much the grammar had to push was not recorded.");
  const push = tr("The grammar pushed hardest at {word}: all allowed words had {share} there.", {
    word: quote(wordLabel(run, ids[hardest])),
    share: formatPercent(tokens[hardest].allowed ?? 0),
  });
  const against = tokens.filter(({ wanted }) => wanted !== null).length;
  const often = pluralText(
    against,
    tr("At 1 token the model wanted something else."),
    tr("At {n} tokens the model wanted something else."),
  );
  return against ? `${push} ${often}` : push;
}

/**
 * The sum of ln Z, and of how many tokens it is known.
 * @param {GrammarText} text
 */
export const sumText = ({ tokens, known, log_allowed: sum }) =>
  tr(
    "Sum of ln Z: {sum}, from {known} of {n} tokens. Z is the [allowed probability|probability of all allowed tokens].",
    {
      sum: formatFixed(sum, 1),
      known,
      n: tokens.length,
    },
  );

/**
 * What the model wanted at a token that the grammar removed; empty if it wanted an allowed one.
 * @param {Run} run
 * @param {GrammarToken} token
 */
export function wantedText(run, { wanted, wanted_p, fits, expected }) {
  if (wanted === null) return "";
  const share = formatPercent(wanted_p ?? 0);
  if (run.eos_token_ids.includes(wanted))
    return tr("The model wanted to end here ({share}), but the text is not complete.", { share });
  const word = quote(wordLabel(run, wanted));
  if (!expected) return tr("The model wanted {word} ({share}), which is no text.", { word, share });
  const values = { word, share, expected: said(expected) };
  return fits
    ? tr("The model wanted {word} ({share}). After {fits} the grammar expected {expected}.", {
        ...values,
        fits: quote(fits),
      })
    : tr("The model wanted {word} ({share}). The grammar expected {expected}.", values);
}

/**
 * Whether the text may or must go on or end at a token, and how it is cut.
 * @param {GrammarToken} token
 */
export function placeTexts({ forced, may_end, odd_split }) {
  const end = may_end
    ? forced
      ? tr("The text must end here.")
      : tr("The text may end here.")
    : forced
      ? tr("No other text could follow here.")
      : "";
  return [end, odd_split ? tr("The tokenizer usually cuts this text elsewhere.") : ""].filter(
    Boolean,
  );
}
