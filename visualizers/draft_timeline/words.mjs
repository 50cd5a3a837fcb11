// Texts and number formats of the view of speculative decoding.
import { milliseconds, piece, fixed as written } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

export const GLYPH = {
  accepted: "✓",
  rejected: "✗",
  unverified: "?",
  resampled: "↻",
  bonus: "+",
  target: "→",
};
export const STATUS = {
  accepted: tr("accepted"),
  rejected: tr("rejected"),
  unverified: tr("unverified"),
  resampled: tr("resampled"),
  bonus: tr("bonus"),
  target: tr("target"),
};
const WORD = {
  accepted: tr("accepted"),
  rejected: tr("rejected"),
  unverified: tr("not judged: it follows a rejected token"),
  resampled: tr("resampled from max(0, p − q)"),
  bonus: tr("bonus: the whole draft was right, so the same pass gives one more"),
  target: tr("the target's own token"),
};
export const DRAFTER = {
  assistant: tr("a draft model"),
  prompt_lookup: tr("copying from the text"),
  early_exit: tr("the model's own first layers"),
  universal: tr("a draft model with another tokenizer"),
};

export const fixed = (x, digits = 3) => (x === null || x === undefined ? "–" : written(x, digits));

export const seconds = (s) => (s < 1 ? milliseconds(s) : `${written(s, 2)} s`);

/**
 * The summary of a round.
 * @param {Run} run
 * @param {Step} step
 */
export const shownOf = (run, step) => run.shown[step.index].draft_timeline;

/**
 * Weights of target and draft if drafts are judged by a mixture of both, else null.
 * @param {Run} run
 */
export const weightsOf = (run) => shownOf(run, run.steps[0]).weights;

/** @param {Run} run */
function ruleOf(run) {
  const weights = weightsOf(run);
  if (weights === null) return "min(1, p/q)";
  const [target, draft] = weights.map((x) => fixed(x, 2));
  return `min(1, ${draft} + ${target}·p/q)`;
}

/**
 * A token with its status, its probabilities and the acceptance test.
 * @param {Run} run
 * @param {any} token with the ratio and mixture probability of the summary
 */
export function describe(run, token, kind) {
  const mixed = kind === "target" && weightsOf(run) !== null;
  const name = tr("“{text}”: {what}", {
    text: piece(run, token.token_id),
    what: mixed ? tr("the mixture's own token") : WORD[kind],
  });
  if (token.p === undefined) return name;
  const target = tr("{name}. Target's p as used = {p}", { name, p: fixed(token.p) });
  const draft = token.q === null ? "" : tr(", draft q = {q}", { q: fixed(token.q) });
  return `${target}${draft}${judgementOf(run, token)}`;
}

/** @param {Run} run */
function judgementOf(run, { u, ratio, mixture }) {
  if (u !== null && ratio !== null)
    return tr(", kept if u ≤ {rule} = {ratio}; u = {u}", {
      rule: ruleOf(run),
      ratio: fixed(ratio),
      u: fixed(u),
    });
  return mixture === null ? "" : tr(", mixture {p}", { p: fixed(mixture) });
}
