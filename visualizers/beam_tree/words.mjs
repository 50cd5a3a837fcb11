// Words and numbers of a beam search.
import { fixed, percent, piece, SAY, textOfIds } from "../shared/text.mjs";

export const MARK = { finished: "■ ", finished_worse: "□ ", blocked: "⊘ " };

const WIDE_GLYPH =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60]|\p{Extended_Pictographic}/u;

// Cut a text to so many places of a monospace line; wide glyphs take two.
export function short(text, room) {
  let used = 0;
  let out = "";
  for (const glyph of text) {
    used += WIDE_GLYPH.test(glyph) ? 2 : 1;
    if (used > room) return `${out.slice(0, -1)}…`;
    out += glyph;
  }
  return out;
}

export const scoreOf = (sum, length, penalty, value) =>
  `${fixed(sum)} ÷ ${length}^${penalty} = ${fixed(value)}`;

export function verdict({ fate, margin }) {
  if (fate === "pruned" && margin <= 0) return `It missed the cut by ${fixed(Math.abs(margin))}.`;
  if (fate !== "kept") return "";
  return margin > 0 ? `It made the cut by ${fixed(margin)}.` : "It is the last that made the cut.";
}

/**
 * The probabilities of a node by their names: the model's own, and the one that was used. Scores of
 * processors are not always shares of one whole, so these are what the search added up.
 */
export function probabilitiesOf({ p, model }) {
  const used = ["probability as used", percent(p)];
  if (model === null) return [used];
  const own = ["model's probability", percent(model)];
  return own[1] === used[1] ? [own] : [own, used];
}

export function charged({ penalised_by: groups, diversity_penalty: charge }) {
  if (!groups.length) return "";
  const names = groups.map((g) => g + 1).join(", ");
  return `−${fixed(charge, 2)} because group ${names} took it first`;
}

/**
 * A node as it is read out.
 * @param {Run} run
 */
export function describe(run, node) {
  const d = node.data;
  const diversity = charged(d);
  return [
    `“${piece(run, d.token_id)}”`,
    `step ${node.column + 1}`,
    SAY[d.fate],
    ...probabilitiesOf(node).map((words) => words.join(" ")),
    `sum of log-probabilities ${fixed(d.sum_logprobs)}`,
    `score ${fixed(d.score)}`,
    `rank ${d.rank + 1}`,
    verdict(d).replace(/\.$/, ""),
    d.reason.replace(/\.$/, ""),
    diversity && `diversity ${diversity}`,
  ]
    .filter(Boolean)
    .join(", ");
}

export function pathTo(node) {
  const list = [];
  for (let at = node; at; at = at.parent) list.push(at);
  return list.reverse();
}

/**
 * What the summary shows of a step.
 * @param {Run} run
 */
export const shownOf = (run, index) => run.shown[index].beam_tree;

/** @param {Run} run */
export const textTo = (run, node) =>
  textOfIds(
    run,
    pathTo(node).map((n) => n.data.token_id),
  );
