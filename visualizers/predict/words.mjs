// Sentences on guesses and the score.
import { toProbability } from "../shared/final_scores.mjs";
import { renderTerms } from "../shared/terms.mjs";
import {
  formatFixed,
  formatPercent,
  formatPowerOfTen,
  pluralText,
  tokenLabel,
} from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @typedef {import("./rounds.mjs").Rounds} Rounds */
/** @typedef {import("./rounds.mjs").Said} Said */
/** @typedef {{ guesses: number, right: number, known: number, own: number | null, model: number | null }} Score */

// Larger perplexities are written as a power of ten.
const POWER_LIMIT = 1e6;
const INFINITY_LIMIT = 1e300;

/** @param {Rounds} rounds */
export function skipText({ passed }) {
  const parts = [...passed].map(([reason, steps]) =>
    pluralText(
      steps,
      tr("1 step that {reason}", { reason }),
      tr("{n} steps that {reason}", { reason }),
    ),
  );
  return parts.length ? tr("Passed over: {parts}.", { parts: parts.join(", ") }) : "";
}

/** @param {Rounds} rounds */
export function endText(rounds) {
  const nothing = rounds.guesses.length
    ? tr("Nothing is left to guess.")
    : tr("Nothing of this run can be guessed.");
  return `${skipText(rounds)} ${nothing}`.trim();
}

/**
 * @param {number | null} logprob
 * @param {number} [rank]
 */
function probabilityText(logprob, rank) {
  const share = formatPercent(toProbability(logprob));
  return rank === undefined
    ? tr("the model gave it {share}", { share })
    : tr("the model gave it {share}, rank {rank}", { share, rank: rank + 1 });
}

/** @param {Said} said */
function guessText({ name, logprob, most, rank, more = "" }) {
  if (logprob !== undefined) {
    const own = tr("You said “{name}”: {known}.", { name, known: probabilityText(logprob, rank) });
    return `${own} ${more}`.trim();
  }
  const known =
    most === undefined
      ? tr("only the model knows how probable it was")
      : tr("it is no recorded candidate, so the model gave it at most {share}", {
          share: formatPercent(toProbability(most)),
        });
  const own = tr("You said “{name}”: {known}. It does not count.", { name, known });
  return `${own} ${more}`.trim();
}

/**
 * The guess and the token that was written.
 * @param {Rounds} rounds
 */
export function revealText(rounds) {
  const { said, written, cover } = rounds;
  const name = tokenLabel(cover, written.token_id);
  const own = probabilityText(written.raw_logprob, written.rank);
  if (said && said.token_id === written.token_id)
    return `${tr("“{name}” it is: {own}.", { name, own })} ${said.more ?? ""}`.trim();
  const wrote = tr("It wrote “{name}”: {own}.", { name, own });
  return `${said ? guessText(said) : ""} ${wrote}`.trim();
}

/** @param {number | null} value */
const formatPerplexity = (value) => {
  if (value === null || value > INFINITY_LIMIT) return "∞";
  return value > POWER_LIMIT ? formatPowerOfTen(value) : formatFixed(value, 2);
};

/**
 * @param {Score} score
 * @returns {(string | HTMLElement)[]}
 */
export function renderScore({ guesses, right, known, own, model }) {
  if (!guesses) return [];
  const heard = renderTerms(
    guesses === 1
      ? tr("1 [guess|guess], {right} right", { right })
      : tr("{guesses} [guess|guesses], {right} right", { guesses, right }),
  );
  if (!known) return [...heard, "."];
  const values = { own: formatPerplexity(own), model: formatPerplexity(model), known };
  const both =
    known < guesses
      ? tr(
          " · your [perplexity] {own}, the model's {model} over the {known} whose probability is known.",
          values,
        )
      : tr(" · your [perplexity] {own}, the model's {model}.", values);
  return [...heard, ...renderTerms(both)];
}
