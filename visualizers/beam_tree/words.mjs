// Texts and numbers of a beam search.
import { said } from "../shared/server_text.mjs";
import {
  FATE_TEXT,
  formatFixed,
  formatPercent,
  formatSetting,
  makeVisible,
  quoteText,
  tokenLabel,
  tokensText,
  tokenText,
} from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @import { TreeNode } from "./tree.d.ts" */

// Marks of an end of text by its fate.
/** @type {Record<string, string>} */
const END_MARKS = { finished: "■ ", finished_worse: "□ ", blocked: "⊘ " };
// Longer words are cut.
const MAX_WORD = 16;

const WIDE_GLYPH =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60]|\p{Extended_Pictographic}/u;

/**
 * Cut a text to a number of monospace columns; wide glyphs take two.
 * @param {string} text
 * @param {number} room
 */
export function shortenText(text, room) {
  let used = 0;
  let out = "";
  for (const glyph of text) {
    used += WIDE_GLYPH.test(glyph) ? 2 : 1;
    if (used > room) return `${out.slice(0, -1)}…`;
    out += glyph;
  }
  return out;
}

/**
 * The word of a node as the tree draws it. An end of text has the mark of its fate.
 * @param {Run} run
 * @param {BeamNode} node
 */
export function nodeWord(run, { token_id: id, fate }) {
  if (run.eos_token_ids.includes(id)) return (END_MARKS[fate] ?? "") + tr("end");
  const text = makeVisible(tokenText(run, id)).trim();
  return shortenText(text || tokenLabel(run, id), MAX_WORD);
}

/**
 * The end of the prompt as the root of the tree.
 * @param {Run} run
 */
export function rootWord(run) {
  const asked = run.messages?.at(-1)?.content;
  const text = run.prompt ?? (typeof asked === "string" ? asked : "");
  const last = makeVisible(text).trim().split(/\s+/).at(-1);
  return last ? `… ${[...last].slice(-MAX_WORD).join("")}` : "…";
}

/**
 * @param {number} sum
 * @param {number} length
 * @param {number} penalty
 * @param {number} value
 */
export const scoreText = (sum, length, penalty, value) =>
  `${formatFixed(sum)} ÷ ${length}^${formatSetting(penalty)} = ${formatFixed(value)}`;

/** @param {BeamNode} node */
export function marginText({ fate, margin }) {
  if (fate === "pruned" && margin <= 0)
    return tr("It missed the cut by {margin}.", { margin: formatFixed(Math.abs(margin)) });
  if (fate !== "kept") return "";
  return margin > 0
    ? tr("It made the cut by {margin}.", { margin: formatFixed(margin) })
    : tr("It is the last that made the cut.");
}

/**
 * Names and values of a node's probabilities: the model's own and the used one. Processed scores
 * need not sum to 1, so the used one is the term that the search added.
 * @param {TreeNode} node
 */
export function probabilityFacts({ p, model }) {
  const used = [tr("probability with your settings"), formatPercent(p)];
  if (model === null) return [used];
  const own = [tr("the model’s own probability"), formatPercent(model)];
  return own[1] === used[1] ? [own] : [own, used];
}

/** @param {BeamNode} node */
export function chargeText({ penalised_by: groups, diversity_penalty: charge }) {
  if (!groups.length) return "";
  const names = groups.map((g) => g + 1).join(", ");
  return tr("−{charge} because group {groups} took it first", {
    charge: formatFixed(charge, 2),
    groups: names,
  });
}

/**
 * Label of a node for screen readers.
 * @param {Run} run
 * @param {TreeNode} node
 */
export function describeTreeNode(run, node) {
  const d = node.data;
  const diversity = chargeText(d);
  return [
    quoteText(tokenLabel(run, d.token_id)),
    tr("step {step}", { step: node.column + 1 }),
    FATE_TEXT[d.fate],
    ...probabilityFacts(node).map((words) => words.join(" ")),
    tr("sum of log-probabilities {sum}", { sum: formatFixed(d.sum_logprobs) }),
    tr("score {score}", { score: formatFixed(d.score) }),
    tr("rank {n}", { n: d.rank + 1 }),
    marginText(d).replace(/\.$/, ""),
    said(d.reason).replace(/\.$/, ""),
    diversity && tr("diversity {charge}", { charge: diversity }),
  ]
    .filter(Boolean)
    .join(", ");
}

/** @param {TreeNode | null} node */
export function pathTo(node) {
  const list = [];
  for (let at = node; at; at = at.parent) list.push(at);
  return list.reverse();
}

/**
 * The summary of a step.
 * @param {Run} run
 * @param {number} index
 */
export const stepSummary = (run, index) => run.shown[index].beam_tree;

/**
 * @param {Run} run
 * @param {TreeNode} node
 */
export const pathText = (run, node) =>
  tokensText(
    run,
    pathTo(node).map((n) => n.data.token_id),
  );
