// Texts and number formats of the view of speculative decoding.
import { formatDuration, formatFixed, pluralText, tokenLabel } from "../shared/text.mjs";
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
/**
 * What became of a guess, as a sign and in a word.
 * @type {Record<string, [string, string]>}
 */
export const VERDICTS = {
  accepted: ["✓", tr("kept")],
  rejected: ["✕", tr("refused")],
  unverified: ["–", tr("dropped with it")],
};
/** @type {Record<string, string>} */
export const STATUS_TEXT = {
  accepted: tr("accepted"),
  rejected: tr("rejected"),
  unverified: tr("unverified"),
  resampled: tr("resampled"),
  bonus: tr("bonus"),
  target: tr("main model"),
};
/** @type {Record<string, string>} */
const OUTCOME_TEXT = {
  accepted: tr("accepted"),
  rejected: tr("rejected"),
  unverified: tr("not judged: it follows a rejected token"),
  resampled: tr("resampled from max(0, p − q)"),
  bonus: tr("bonus: the whole draft was right, so the same pass gives one more"),
  target: tr("the main model's own token"),
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

/**
 * The ids of the prompt and of the text before a round.
 * @param {Run} run
 * @param {Step} step
 */
export function textBefore(run, step) {
  const written = run.outputs[0] ? run.outputs[0].token_ids : run.tokens[0].map((t) => t.id);
  return [...run.prompt_ids, ...written.slice(0, step.keep)];
}

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
  const target = tr("{name}. The main model's p = {p}", { name, p: formatOptional(token.p) });
  return `${target}${draftText(run, token)}${judgementText(run, token)}`;
}

/**
 * @param {Run} run
 * @param {JudgedToken} token
 */
function draftText(run, { q }) {
  if (q === null) return "";
  const said = { q: formatOptional(q) };
  return run.strategy === "mtp"
    ? tr(", the extra heads' q = {q}", said)
    : tr(", the draft model's q = {q}", said);
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

/** @param {number} n */
const passesText = (n) => pluralText(n, tr("in one pass"), tr("in {n} passes"));

/**
 * What drafted a round, and how many tokens it proposed in which time.
 * @param {Run} run
 * @param {DraftDetail} d
 */
export function proposalText(run, d) {
  const said = {
    tokens: pluralText(d.draft_length, tr("1 token"), tr("{n} tokens")),
    passes: passesText(d.draft_forwards),
    took: formatDuration(d.draft_s),
  };
  if (d.drafter === "prompt_lookup") return tr("The copy proposed {tokens} ({took}).", said);
  if (d.drafter === "early_exit")
    return tr("Layer {n} of {total} proposed {tokens} {passes} ({took}).", {
      n: d.exit_layer ?? 0,
      total: run.model.layers,
      ...said,
    });
  if (d.drafter === "mtp")
    return tr("The [extra head|extra heads] proposed {tokens} {passes} ({took}).", said);
  if (d.tree.length)
    return tr("The draft model proposed a tree of {tokens} {passes} ({took}).", said);
  return tr("The draft model proposed {tokens} {passes} ({took}).", said);
}

/**
 * What the main model did with the draft of a round.
 * @param {Step} step
 */
export function checkText({ detail, forward_passes }) {
  const said = { passes: passesText(forward_passes), took: formatDuration(detail.verify_s) };
  return detail.tokens.length
    ? tr("The main model checked them {passes} ({took}).", said)
    : tr("The main model wrote a token itself {passes} ({took}).", said);
}
