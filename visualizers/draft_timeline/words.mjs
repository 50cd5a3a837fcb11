// Texts and number formats of the view of speculative decoding.
import { formatFixed, tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @import { DraftSummary } from "../shared/summaries.d.ts" */

/** @type {Record<string, string>} */
export const STATUS_GLYPHS = {
  accepted: "✓",
  rejected: "✗",
  unverified: "?",
  resampled: "↻",
  bonus: "+",
  target: "→",
};
/** @type {Record<string, string>} */
export const STATUS_TEXT = {
  accepted: tr("accepted"),
  rejected: tr("rejected"),
  unverified: tr("unverified"),
  resampled: tr("resampled"),
  bonus: tr("bonus"),
  target: tr("target"),
};
/** @type {Record<string, string>} */
const OUTCOME_TEXT = {
  accepted: tr("accepted"),
  rejected: tr("rejected"),
  unverified: tr("not judged: it follows a rejected token"),
  resampled: tr("resampled from max(0, p − q)"),
  bonus: tr("bonus: the whole draft was right, so the same pass gives one more"),
  target: tr("the target's own token"),
};
/** @type {Record<string, string>} */
export const DRAFTER_TEXT = {
  assistant: tr("a draft model"),
  prompt_lookup: tr("copying from the text"),
  early_exit: tr("the model's own first layers"),
  universal: tr("a draft model with another tokenizer"),
};

/**
 * A token of a round. p is undefined where the record lacks it; ratio and mixture are the summary's.
 * @typedef {object} JudgedToken
 * @property {number} token_id
 * @property {number | undefined} p
 * @property {number | null} q
 * @property {number | null} u
 * @property {number | null} ratio
 * @property {number | null} mixture
 */

/** @param {number | null | undefined} x */
export const formatOptional = (x, digits = 2) =>
  x === null || x === undefined ? "–" : formatFixed(x, digits);

/**
 * The summary of a round.
 * @param {Run} run
 * @param {Step} step
 * @returns {DraftSummary}
 */
export const roundSummary = (run, step) => run.shown[step.index].draft_timeline;

/**
 * Weights of target and draft if drafts are judged by a mixture of both, else null.
 * @param {Run} run
 */
export const mixtureWeights = (run) => roundSummary(run, run.steps[0]).weights;

/** @param {Run} run */
function acceptanceRule(run) {
  const weights = mixtureWeights(run);
  if (weights === null) return "min(1, p/q)";
  const [target, draft] = weights.map((x) => formatOptional(x, 2));
  return `min(1, ${draft} + ${target}·p/q)`;
}

/**
 * A token with its status, its probabilities and the acceptance test.
 * @param {Run} run
 * @param {JudgedToken} token with the ratio and mixture probability of the summary
 * @param {string} kind
 */
export function describeToken(run, token, kind) {
  const mixed = kind === "target" && mixtureWeights(run) !== null;
  const name = tr("“{text}”: {what}", {
    text: tokenLabel(run, token.token_id),
    what: mixed ? tr("the mixture's own token") : OUTCOME_TEXT[kind],
  });
  if (token.p === undefined) return name;
  const target = tr("{name}. Target's p as used = {p}", { name, p: formatOptional(token.p) });
  const draft = token.q === null ? "" : tr(", draft q = {q}", { q: formatOptional(token.q) });
  return `${target}${draft}${judgementText(run, token)}`;
}

/**
 * @param {Run} run
 * @param {JudgedToken} token
 */
function judgementText(run, { u, ratio, mixture }) {
  if (u !== null && ratio !== null)
    return tr(", kept if u ≤ {rule} = {ratio}; u = {u}", {
      rule: acceptanceRule(run),
      ratio: formatOptional(ratio),
      u: formatOptional(u),
    });
  return mixture === null ? "" : tr(", mixture {p}", { p: formatOptional(mixture) });
}
