// Words on the tokens and the outputs of a text.
import { finalScoreText, findFinalScore } from "../shared/final_scores.mjs";
import { formatFixed, formatPercent, pluralText, quoteText, tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { SPECIAL_TOKEN } from "./chat_turns.mjs";

/** @import { TextFigures } from "../shared/summaries.d.ts" */

const END_TOKEN = tr("The token that ends a text");

/**
 * The kind of a special token, empty for others. Older files list only the end tokens.
 * @param {Run} run
 * @param {number} id
 */
export function tokenKind(run, id) {
  if (run.eos_token_ids.includes(id)) return END_TOKEN;
  return run.special_token_ids?.includes(id) ? SPECIAL_TOKEN : "";
}

/**
 * @param {Run} run
 * @param {Token} token
 */
export function describeToken(run, token) {
  const kind = tokenKind(run, token.id);
  const text = tokenLabel(run, token.id);
  const name = kind ? tr("{kind}: “{text}”", { kind, text }) : quoteText(text);
  if (token.bits === null) return name;
  const probability = run.served
    ? tr("reported probability {p}", { p: formatPercent(token.p ?? token.used ?? 0) })
    : probabilityText(token);
  const bits = formatFixed(token.bits, 1);
  return tr("{name}, {probability}, surprise {bits} bits", { name, probability, bits });
}

/**
 * The model's probability and the used one by name; only one if the processors changed nothing.
 * @param {Token} token
 */
function probabilityText({ p, used }) {
  if (p === null)
    return tr("probability with your settings {used}", { used: formatPercent(used ?? 0) });
  const own = formatPercent(p);
  return used === p || used === null
    ? tr("the model's probability {own}", { own })
    : tr("the model's own probability {own}, with your settings {used}", {
        own,
        used: formatPercent(used),
      });
}

/**
 * Heading of an output: its number, group, score, perplexity and length.
 * @param {Run} run
 * @param {{ output: number | null, score: number | null, group: number | null, own: TextFigures }} text
 */
export function outputTitle(run, { output, score, group, own }) {
  const parts = [
    output === null ? tr("Not returned") : tr("Output {n}", { n: output + 1 }),
    run.config.num_beam_groups > 1 && group !== null ? tr("group {n}", { n: group + 1 }) : "",
    score === null ? "" : tr("score {value}", { value: formatFixed(score) }),
    own.perplexity === null
      ? ""
      : tr("perplexity {value}", { value: formatFixed(own.perplexity, 2) }),
    pluralText(own.tokens, tr("1 token"), tr("{n} tokens")),
  ];
  return parts.filter(Boolean).join(" · ");
}

/**
 * Heading of a returned output. The first output of a finished beam search also gets its score.
 * @param {Run} run
 * @param {number} sequence
 */
export function outputHeading(run, sequence) {
  const at = run.steps.findLastIndex((step) => step.sequence === sequence);
  const { detail } = run.steps[at];
  const [first] = detail?.kind === "beam" && detail.stopping ? detail.heap : [];
  const { own } = run.shown[at].text;
  return outputTitle(run, {
    output: sequence,
    score: first?.score ?? null,
    group: first?.group ?? null,
    own,
  });
}

/**
 * Score from the finished text for a token without a recorded probability, empty for others.
 * @param {Run} run
 * @param {number} sequence
 * @param {number} at
 */
export function finalScoreSuffix(run, sequence, at) {
  const token = run.tokens[sequence][at];
  const step = run.steps[token.step];
  const found = token.bits === null && step ? findFinalScore(run, step, at - step.keep) : null;
  return found ? `, ${finalScoreText(run, found)}` : "";
}
