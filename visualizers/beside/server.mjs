// View of a server's text that a model here has read: every token shaded by its KL divergence, which is
// known between two bounds.
import { el } from "../shared/dom.mjs";
import { formatCount, formatPercent, formatPrecise, quoteText } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { createStrip, describeTops, placeText } from "./view.mjs";

/** @typedef {{ token_id: number, server_p: number | null, here_p: number, server_top: number, here_top: number, kl: [number, number] }} ServedToken */

/** @param {[number, number]} kl */
function klText([low, high]) {
  const [from, to] = [low, high].map((value) => formatPrecise(value));
  return from === to
    ? tr("KL {kl} nats", { kl: from })
    : tr("KL between {low} and {high} nats", { low: from, high: to });
}

/**
 * A sentence on one token there and here.
 * @param {any} found
 * @param {ServedToken} token
 */
function describeServed(found, { token_id, server_p, here_p, server_top, here_top, kl }) {
  const here = formatPercent(here_p);
  return [
    quoteText(placeText(found, token_id)),
    klText(kl),
    server_p === null
      ? tr("not listed by the server, probability {here} here", { here })
      : tr("probability {server} there, {here} here", { server: formatPercent(server_p), here }),
    describeTops(found, server_top, here_top),
  ].join("; ");
}

/** @param {any} found */
function summaryText({ tokens, mean_kl, same_tops, first_difference, compared, ...found }) {
  const [low, high] = mean_kl.map((/** @type {number} */ value) => formatPrecise(value));
  const differences = {
    n: formatCount(compared),
    mean: formatPrecise(found.mean_difference),
    largest: formatPrecise(found.largest_difference),
  };
  return [
    tr("The mean KL divergence per token is between {low} and {high} nats.", { low, high }),
    tr("Both find the same token most probable at {same} of {n} places.", {
      same: formatCount(same_tops),
      n: formatCount(tokens.length),
    }),
    first_difference === null
      ? ""
      : tr("They differ first at token {n}.", { n: formatCount(first_difference + 1) }),
    tr(
      "The {n} listed log-probabilities differ by {mean} nats on average, by at most {largest}.",
      differences,
    ),
    found.same_prompt === false
      ? tr("The prompt has other tokens here, so the tokenizers differ.")
      : "",
  ]
    .filter(Boolean)
    .join(" ");
}

/**
 * @param {any} found the answer of the playground
 * @param {(at: number) => void} choose
 * @returns {HTMLElement[]}
 */
export const createServerComparison = (found, choose) => [
  el("p", { class: "bs-summary" }, summaryText(found)),
  ...createStrip(
    found.tokens.map((/** @type {ServedToken} */ token) => ({
      text: placeText(found, token.token_id),
      kl: token.kl[0],
      differs: token.server_top !== token.here_top,
      words: describeServed(found, token),
    })),
    tr("[KL divergence] of the model here from the server’s, at least:"),
    choose,
  ),
];
