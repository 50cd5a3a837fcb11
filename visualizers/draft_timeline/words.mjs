// Texts and number formats of the view of speculative decoding.
import { formatMilliseconds, tokenLabel, formatFixed as written } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

export const STATUS_GLYPHS = {
  accepted: "✓",
  rejected: "✗",
  unverified: "?",
  resampled: "↻",
  bonus: "+",
  target: "→",
};
export const STATUS_TEXT = {
  accepted: tr("accepted"),
  rejected: tr("rejected"),
  unverified: tr("unverified"),
  resampled: tr("resampled"),
  bonus: tr("bonus"),
  target: tr("target"),
};
const OUTCOME_TEXT = {
  accepted: tr("accepted"),
  rejected: tr("rejected"),
  unverified: tr("not judged: it follows a rejected token"),
  resampled: tr("resampled from max(0, p − q)"),
  bonus: tr("bonus: the whole draft was right, so the same pass gives one more"),
  target: tr("the target's own token"),
};
export const DRAFTER_TEXT = {
  assistant: tr("a draft model"),
  prompt_lookup: tr("copying from the text"),
  early_exit: tr("the model's own first layers"),
  universal: tr("a draft model with another tokenizer"),
};

export const formatOptional = (x, digits = 3) =>
  x === null || x === undefined ? "–" : written(x, digits);

export const formatSeconds = (s) => (s < 1 ? formatMilliseconds(s) : `${written(s, 2)} s`);

/**
 * The summary of a round.
 * @param {Run} run
 * @param {Step} step
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
 * @param {any} token with the ratio and mixture probability of the summary
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

/** @param {Run} run */
function judgementText(run, { u, ratio, mixture }) {
  if (u !== null && ratio !== null)
    return tr(", kept if u ≤ {rule} = {ratio}; u = {u}", {
      rule: acceptanceRule(run),
      ratio: formatOptional(ratio),
      u: formatOptional(u),
    });
  return mixture === null ? "" : tr(", mixture {p}", { p: formatOptional(mixture) });
}
