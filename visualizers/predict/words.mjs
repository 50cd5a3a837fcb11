// What is said of a guess and of the score, in sentences.
import { probabilityOf } from "../shared/outside.mjs";
import { told } from "../shared/terms.mjs";
import { count, fixed, percent, piece, power } from "../shared/text.mjs";

/** @typedef {import("./rounds.mjs").Rounds} Rounds */
/** @typedef {import("./rounds.mjs").Said} Said */
/** @typedef {{ guesses: number, right: number, known: number, own: number | null, model: number | null }} Score */

// Above this a perplexity is read as a power of ten.
const LARGE = 1e6;
const ENDLESS = 1e300;

/** @param {Rounds} rounds */
export function passedSaid({ passed }) {
  const parts = [...passed].map(([reason, steps]) => `${count(steps, "step")} that ${reason}`);
  return parts.length ? `Passed over: ${parts.join(", ")}.` : "";
}

/** @param {Rounds} rounds */
export const overSaid = (rounds) =>
  `${passedSaid(rounds)} ${rounds.guesses.length ? "Nothing is left to guess." : "Nothing of this run can be guessed."}`.trim();

const given = (logprob, rank) =>
  `the model gave it ${percent(probabilityOf(logprob))}${rank === undefined ? "" : `, rank ${rank + 1}`}`;

/** @param {Said} said */
function guessSaid({ name, logprob, most, rank, more = "" }) {
  const own = `You said “${name}”`;
  if (logprob !== undefined) return `${own}: ${given(logprob, rank)}. ${more}`.trim();
  const known =
    most === undefined
      ? "how probable it was only the model can tell"
      : `it is no recorded candidate, so the model gave it at most ${percent(probabilityOf(most))}`;
  return `${own}: ${known}. It does not count. ${more}`.trim();
}

/**
 * What was guessed and what was written.
 * @param {Rounds} rounds
 */
export function revealSaid(rounds) {
  const { said, written, cover } = rounds;
  const name = piece(cover, written.token_id);
  const own = given(written.raw_logprob, written.rank);
  if (said?.token_id === written.token_id)
    return `“${name}” it is: ${own}. ${said.more ?? ""}`.trim();
  return `${said ? guessSaid(said) : ""} It wrote “${name}”: ${own}.`.trim();
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
  const heard = told(`${guesses} [guess|${guesses === 1 ? "guess" : "guesses"}], ${right} right`);
  if (!known) return [...heard, "."];
  const over = known < guesses ? ` over the ${known} whose probability is known` : "";
  return [
    ...heard,
    ...told(` · your [perplexity] ${perplexity(own)}, the model's ${perplexity(model)}${over}.`),
  ];
}
