// The sentences of the What if view: the step's token under other settings, and the first step of
// the run that would change.
import { processorTitle } from "../../../visualizers/shared/processors.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { makeVisible, tokenText } from "../../../visualizers/shared/text.mjs";
import { pageLanguage, tr } from "../../../visualizers/shared/tr.mjs";

/**
 * Quote a token. Non-breaking spaces keep a leading space together with its token at a line's end.
 * @param {string} text
 */
const quoteToken = (text) => tr("‘{token}’", { token: text.replaceAll(" ", "\u00a0") });

/**
 * Lower a name's first letter inside an English sentence. Other languages keep it, as do names with
 * further capitals.
 * @param {string} name
 */
const lowerFirst = (name) =>
  pageLanguage() === "en" && !/^\S+[A-Z]/.test(name) ? name[0].toLowerCase() + name.slice(1) : name;

/**
 * Return the sentence about the step's token under the new settings.
 * @param {{ off: string[], moved: boolean }} cards
 * @param {import("../forms/form.mjs").Form} form
 * @param {Run} run
 * @param {any} answer of the server
 */
export function decisionSentence(cards, form, run, { changed, token, recorded, sample }) {
  const words = {
    opening: openingPhrase(cards, form, changed),
    token: quoteToken(makeVisible(tokenText(run, token))),
  };
  if (token === recorded)
    return sample
      ? tr("{opening} the draw stays {token}.", words)
      : tr("{opening} the choice stays {token}.", words);
  return sample
    ? tr("{opening} the draw becomes {token}.", words)
    : tr("{opening} the choice becomes {token}.", words);
}

/**
 * Return the beginning of that sentence: what was changed.
 * @param {{ off: string[], moved: boolean }} cards
 * @param {import("../forms/form.mjs").Form} form
 * @param {string[]} changed names of parameters
 */
function openingPhrase({ off, moved }, form, changed) {
  if (off.length + changed.length + (moved ? 1 : 0) > 1) return tr("With these settings");
  if (moved) return tr("In this order");
  if (off.length) return tr("Without {name}", { name: lowerFirst(processorTitle(off[0])) });
  if (!changed.length) return tr("With the run’s own settings");
  const [param] = changed;
  const { label } = form.params.find((p) => p.name === param) ?? { label: param };
  const name = lowerFirst(label);
  const { [param]: given } = form.values();
  if (given === "") return tr("Without {name}", { name });
  const value = typeof given === "boolean" ? (given ? tr("on") : tr("off")) : given;
  return param === "temperature"
    ? tr("At {name} {value}", { name, value })
    : tr("With {name} {value}", { name, value });
}

/**
 * Return the sentence about the first step of the run that would change.
 * @param {Run} run
 * @param {any} found the server's answer
 */
export function firstChangeSentence(run, { error, unsure, first, pieces }) {
  if (error) return said(error);
  const left = unsure
    ? tr(" ({n} steps whose own draw cannot be repeated here are left out.)", { n: unsure })
    : "";
  if (!first) return `${tr("No step of the run would have changed.")}${left}`;
  const seen = { ...run, pieces: { ...run.pieces, ...pieces } };
  /** @param {number} id */
  const word = (id) => quoteToken(makeVisible(tokenText(seen, id)));
  const changed = tr(
    "The first step of the run that would have changed is step {step}: {now} instead of {before}.",
    { step: first.step + 1, now: word(first.token), before: word(first.recorded) },
  );
  return `${changed}${left}`;
}
