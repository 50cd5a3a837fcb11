// What a server reported of a run, in words.
import { formatFixed, formatPercent } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @type {Record<string, string>} */
export const SERVER_TITLES = {
  openai: "OpenAI",
  vllm: "vLLM",
  llamacpp: "llama.cpp",
  ollama: "Ollama",
  tgi: "TGI",
  unknown: tr("an unknown server"),
};

/** @type {Record<string, string>} */
export const DISTRIBUTION_TEXT = {
  model: tr(
    "These are the model's own probabilities. What the server's filters made of them is unseen.",
  ),
  sampled: tr(
    "These are the probabilities after the server's filters. The model's own are unseen.",
  ),
  unknown: tr(
    "Whether these probabilities are from before or after the server's filters is unknown.",
  ),
};

/** @type {Record<string, string>} */
export const CHOICE_TEXT = {
  greedy: tr("The request asked for the most likely token."),
  own: tr("This program drew the token, by its own filters and random numbers."),
  sampling: tr("The server drew the token at random. The draw itself is unseen."),
  unknown: tr("How the server chose the token is unknown."),
};

export const OWN_DISTRIBUTION_TEXT = tr(
  "These are the model's own probabilities, before the filters of this program.",
);

/**
 * By how much a draw of this program may be wrong, as it saw only a part of the vocabulary.
 * @param {number} error
 */
export const drawErrorText = (error) =>
  error === 0
    ? tr("The server listed every token that the filters keep, so the draw is exact.")
    : tr(
        "The filters may keep tokens that are [unseen probability|unseen]: the draw may be wrong by up to {error}.",
        {
          error: formatPercent(error),
        },
      );

const SAME_BITS = 0.005;

/**
 * The interval of an entropy in bits.
 * @param {number} low
 * @param {number} high
 */
export const entropyText = (low, high) =>
  high - low < SAME_BITS
    ? tr("The [entropy] is {bits} [bit|bits].", { bits: formatFixed(high, 2) })
    : tr("The [entropy] is between {low} and {high} [bit|bits].", {
        low: formatFixed(low, 2),
        high: formatFixed(high, 2),
      });

const ALL_SEEN = 1e-5;

/**
 * The probability that was not reported.
 * @drawing
 * @param {number} seen
 */
export const unseenText = (seen) =>
  1 - seen < ALL_SEEN
    ? tr("The server reported every token that could follow.")
    : tr(
        "{unseen} of the probability is [unseen probability|unseen]: it is on tokens that the server did not list.",
        { unseen: formatPercent(1 - seen) },
      );
