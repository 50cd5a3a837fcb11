// Comparison of the winner with greedy search: where the texts diverge, and their scores.
import { el } from "../shared/dom.mjs";
import {
  formatCount,
  formatFixed,
  formatNumber,
  formatPrecise,
  tokenLabel,
  tokensText,
} from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { pathTo, stepSummary } from "./words.mjs";

/** @import { GreedyPath } from "../shared/trace.d.ts" */
/** @import { Forest } from "./forest.mjs" */

/**
 * A text with the part that both texts share, and the first different token in bold.
 * @param {Run} run
 * @param {number[]} ids
 * @param {number | null} at
 */
function createTextLine(run, ids, at) {
  const cut = at === null ? ids.length : at;
  /**
   * @param {number} from
   * @param {number} [to]
   */
  const words = (from, to) => tokensText(run, ids.slice(from, to));
  const differing = ids[cut] === undefined ? tr("(end)") : words(cut, cut + 1);
  const next = at === null ? "" : differing;
  const gap = " ".repeat(next.length - next.trimStart().length);
  return el(
    "span",
    { class: "bt-words" },
    el("span", { class: "same" }, words(0, cut).trimStart()),
    gap,
    next ? el("b", {}, next.slice(gap.length)) : null,
    words(cut + 1),
  );
}

/**
 * @param {string} kind
 * @param {string} label
 * @param {Content} text
 * @param {{ length: number, sum: number, score: number }} numbers
 */
const createSide = (kind, label, text, { length, sum, score }) =>
  el(
    "div",
    { class: `bt-side ${kind}` },
    el("span", { class: "who" }, label),
    text,
    el(
      "span",
      { class: "sum" },
      tr("sum of log-probabilities "),
      el("b", {}, formatFixed(sum)),
      lengthText(length, formatFixed(score)),
    ),
  );

/**
 * @param {number} length
 * @param {string} score
 */
const lengthText = (length, score) =>
  length === 1
    ? tr(" over 1 token, score {score}", { score })
    : tr(" over {n} tokens, score {score}", { n: formatCount(length), score });

/**
 * A sentence on how the search lost the greedy path.
 * @param {Forest} forest
 * @param {number[]} ids
 * @param {number[]} found
 */
function lossText(forest, ids, found) {
  const last = forest.nodes.get(found.at(-1) ?? -1);
  if (!last) return "";
  const step = last.column + 1;
  if (last.data.fate === "pruned")
    return tr(" Its path was dropped at step {step}, as number {n} of the pool.", {
      step,
      n: last.data.rank + 1,
    });
  return found.length === ids.length
    ? ""
    : tr(" Its path left the pool after step {step}.", { step });
}

/**
 * @param {Run} run
 * @param {Forest} forest
 * @param {number[]} ids
 * @param {GreedyPath} greedy
 * @param {number[]} found
 */
function divergenceText(run, forest, ids, greedy, found) {
  const at = greedy.left_at;
  if (at === null) return tr("Beam search ends on the greedy path itself.");
  /** @param {number[]} list */
  const name = (list) => (list[at] === undefined ? tr("(end)") : tokenLabel(run, list[at]));
  const parting = tr(
    "Beam search leaves the greedy path at token {n}: “{own}” instead of “{other}”.",
    { n: at + 1, own: name(ids), other: name(greedy.token_ids) },
  );
  return parting + lossText(forest, greedy.token_ids, found);
}

/**
 * A sentence on the ratio of the probabilities. Only texts of the same length can be compared.
 * @param {{ gain: number | null, times: number | null }} compared
 */
function gainText({ gain, times }) {
  if (gain === null || times === null || times < 1.005) return "";
  const values = { times: times >= 1e6 ? formatPrecise(times) : formatNumber(times) };
  return gain > 0
    ? tr(" The winner is {times} times as probable as the greedy text.", values)
    : tr(" The greedy text is {times} times as probable as the winner.", values);
}

/**
 * @param {Run} run
 * @param {Forest} forest
 * @param {BeamDetail} detail
 */
export function createGreedyComparison(run, forest, detail) {
  const { greedy } = detail;
  const winner = forest.nodes.get(detail.winner_node_id ?? -1);
  if (!greedy || !winner) return [];
  const ids = pathTo(winner).map((n) => n.data.token_id);
  const compared = stepSummary(run, run.steps.length - 1).greedy;
  if (!compared) return [];
  const { paid } = compared;
  const charges =
    paid > 0
      ? tr(" Diversity charges are {paid} of the winner's sum.", { paid: formatFixed(paid, 2) })
      : "";
  const other = greedy.token_ids;
  const numbers = { length: other.length, sum: greedy.sum_logprobs, score: greedy.score };
  const { sum_logprobs: sum, score } = winner.data;
  return [
    el("h4", {}, tr("Compare with greedy search")),
    createSide("g", tr("Greedy search"), createTextLine(run, other, greedy.left_at), numbers),
    createSide("b", tr("Beam search"), createTextLine(run, ids, greedy.left_at), {
      length: ids.length,
      sum,
      score,
    }),
    el(
      "p",
      { class: "dp-note" },
      divergenceText(run, forest, ids, greedy, compared.path) + gainText(compared) + charges,
    ),
  ];
}
