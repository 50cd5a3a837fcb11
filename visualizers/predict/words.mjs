// Sentences on guesses and the score.
import { probabilityOf } from "../shared/final_scores.mjs";
import { told } from "../shared/terms.mjs";
import { counted, fixed, percent, piece, power } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @typedef {import("./rounds.mjs").Rounds} Rounds */
/** @typedef {import("./rounds.mjs").Said} Said */
/** @typedef {{ guesses: number, right: number, known: number, own: number | null, model: number | null }} Score */

// Larger perplexities are written as a power of ten.
const LARGE = 1e6;
const ENDLESS = 1e300;

/** @param {Rounds} rounds */
export function passedSaid({ passed }) {
  const parts = [...passed].map(([reason, steps]) =>
    counted(
      steps,
      tr("1 step that {reason}", { reason }),
      tr("{n} steps that {reason}", { reason }),
    ),
  );
  return parts.length ? tr("Passed over: {parts}.", { parts: parts.join(", ") }) : "";
}

/** @param {Rounds} rounds */
export function overSaid(rounds) {
  const nothing = rounds.guesses.length
    ? tr("Nothing is left to guess.")
    : tr("Nothing of this run can be guessed.");
  return `${passedSaid(rounds)} ${nothing}`.trim();
}

function given(logprob, rank) {
  const share = percent(probabilityOf(logprob));
  return rank === undefined
    ? tr("the model gave it {share}", { share })
    : tr("the model gave it {share}, rank {rank}", { share, rank: rank + 1 });
}

/** @param {Said} said */
function guessSaid({ name, logprob, most, rank, more = "" }) {
  if (logprob !== undefined) {
    const own = tr("You said “{name}”: {known}.", { name, known: given(logprob, rank) });
    return `${own} ${more}`.trim();
  }
  const known =
    most === undefined
      ? tr("how probable it was only the model can tell")
      : tr("it is no recorded candidate, so the model gave it at most {share}", {
          share: percent(probabilityOf(most)),
        });
  const own = tr("You said “{name}”: {known}. It does not count.", { name, known });
  return `${own} ${more}`.trim();
}

/**
 * The guess and the token that was written.
 * @param {Rounds} rounds
 */
export function revealSaid(rounds) {
  const { said, written, cover } = rounds;
  const name = piece(cover, written.token_id);
  const own = given(written.raw_logprob, written.rank);
  if (said?.token_id === written.token_id)
    return `${tr("“{name}” it is: {own}.", { name, own })} ${said.more ?? ""}`.trim();
  const wrote = tr("It wrote “{name}”: {own}.", { name, own });
  return `${said ? guessSaid(said) : ""} ${wrote}`.trim();
}

const perplexity = (value) => {
  if (value > ENDLESS) return "∞";
  return value > LARGE ? power(value) : fixed(value, 2);
};

/**
 * @param {Score} score
 * @returns {(string | HTMLElement)[]}
 */
export function scoreSaid({ guesses, right, known, own, model }) {
  if (!guesses) return [];
  const heard = told(
    guesses === 1
      ? tr("1 [guess|guess], {right} right", { right })
      : tr("{guesses} [guess|guesses], {right} right", { guesses, right }),
  );
  if (!known) return [...heard, "."];
  const values = { own: perplexity(own), model: perplexity(model), known };
  const both =
    known < guesses
      ? tr(
          " · your [perplexity] {own}, the model's {model} over the {known} whose probability is known.",
          values,
        )
      : tr(" · your [perplexity] {own}, the model's {model}.", values);
  return [...heard, ...told(both)];
}
