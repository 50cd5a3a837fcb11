// The verdict on a comparison in sentences: which text the judge finds likeliest, and the costs.

import { formatNumber, formatWholePercent } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/**
 * What the measures say; see ``find_verdict``.
 * @typedef {object} Verdict
 * @property {Likeliest | null} likeliest
 * @property {{ least: Cost, most: Cost, per_token: boolean } | null} passes
 */

/**
 * @typedef {object} Likeliest
 * @property {string} best
 * @property {string} rival
 * @property {string} worst
 * @property {number} best_perplexity
 * @property {number} worst_perplexity
 * @property {boolean} is_equal
 * @property {number | null} repeats
 * @property {boolean} in_spread
 */

/** @typedef {{ label: string, passes: number, tokens: number }} Cost */

/**
 * Return the sentences of a verdict.
 * @param {Verdict} verdict
 * @param {string} judge title of the model that read every text
 */
export const verdictSentences = ({ likeliest, passes }, judge) => [
  ...(likeliest ? likeliestSentences(likeliest, judge) : []),
  ...(passes ? [costSentence(passes)] : []),
];

/**
 * Never a rank by one number alone: what speaks against the likeliest text comes with it.
 * @param {Likeliest} found
 * @param {string} judge
 */
function likeliestSentences(found, judge) {
  const { best, rival, worst, repeats } = found;
  if (found.is_equal) return [tr("{judge} finds all texts equally likely.", { judge })];
  const values = {
    judge,
    best,
    worst,
    low: formatNumber(found.best_perplexity),
    high: formatNumber(found.worst_perplexity),
  };
  const lead =
    rival === worst
      ? tr("{judge} finds {best} likelier than {worst}: perplexity {low} against {high}.", values)
      : tr(
          "{judge} finds {best} likeliest and {worst} least likely: perplexity {low} against {high}.",
          values,
        );
  const spread = tr(
    "The lead of {best} over {rival} is smaller than the spread of the seeds, so it may be chance.",
    { best, rival },
  );
  const caveat =
    repeats === null
      ? tr("A likelier text is not a better one by itself.")
      : tr("But {best} repeats itself most: {share} of its three-token runs occurred before.", {
          best,
          share: formatWholePercent(repeats),
        });
  return found.in_spread ? [lead, spread, caveat] : [lead, caveat];
}

/** @param {NonNullable<Verdict["passes"]>} costs */
function costSentence({ least, most, per_token }) {
  if (per_token) return tr("Each text took one pass of the model for every token.");
  return tr(
    "{least} took the fewest passes per token: {few} for {tokens}. {most} took the most: {many} for {others}.",
    {
      least: least.label,
      few: formatNumber(least.passes, 0),
      tokens: formatNumber(least.tokens, 0),
      most: most.label,
      many: formatNumber(most.passes, 0),
      others: formatNumber(most.tokens, 0),
    },
  );
}
