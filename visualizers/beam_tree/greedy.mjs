// Greedy search beside the winner: both texts from where they part, and their sums.
import { el } from "../shared/dom.mjs";
import { count, fixed, piece, precise, textOfIds } from "../shared/text.mjs";
import { pathTo, shownOf } from "./words.mjs";

const many = (x) =>
  x >= 1e6 ? precise(x) : x >= 100 ? Math.round(x).toLocaleString("en") : x.toPrecision(3);

/**
 * A text, what it shares with the other one set apart, and the first word that differs in bold.
 * @param {Run} run
 */
function line(run, ids, at) {
  const cut = at === null ? ids.length : at;
  const words = (from, to) => textOfIds(run, ids.slice(from, to));
  const differing = ids[cut] === undefined ? "(end)" : words(cut, cut + 1);
  const next = at === null ? "" : differing;
  const gap = /^ */.exec(next)[0];
  return el(
    "span",
    { class: "bt-words" },
    el("span", { class: "same" }, words(0, cut).trimStart()),
    gap,
    next ? el("b", {}, next.slice(gap.length)) : null,
    words(cut + 1),
  );
}

const side = (kind, label, text, { length, sum, score }) =>
  el(
    "div",
    { class: `bt-side ${kind}` },
    el("span", { class: "who" }, label),
    text,
    el(
      "span",
      { class: "sum" },
      "sum of log-probabilities ",
      el("b", {}, fixed(sum)),
      ` over ${count(length, "token")}, score ${fixed(score)}`,
    ),
  );

// What became of the greedy path in the search.
function lossOf(forest, ids, found) {
  const last = forest.nodes.get(found.at(-1));
  if (!last) return "";
  const step = last.column + 1;
  if (last.data.fate === "pruned")
    return ` Its path was dropped at step ${step}, as number ${last.data.rank + 1} of the pool.`;
  return found.length === ids.length ? "" : ` Its path left the pool after step ${step}.`;
}

/** @param {Run} run */
function partingOf(run, forest, ids, greedy, found) {
  const at = greedy.left_at;
  if (at === null) return "Beam search ends on the greedy path itself.";
  const name = (list) => (list[at] === undefined ? "(end)" : piece(run, list[at]));
  return `Beam search leaves the greedy path at token ${at + 1}: “${name(ids)}” instead of “${name(greedy.token_ids)}”.${lossOf(forest, greedy.token_ids, found)}`;
}

// Two probabilities can be compared only over texts of one length.
function gainOf({ gain, times }) {
  if (gain === null || times < 1.005) return "";
  const [more, less] =
    gain > 0 ? [" The winner", "the greedy text."] : [" The greedy text", "the winner."];
  return `${more} is ${many(times)} times as probable as ${less}`;
}

/** @param {Run} run */
export function greedyOf(run, forest, detail) {
  const { greedy } = detail;
  const winner = forest.nodes.get(detail.winner_node_id);
  if (!greedy || !winner) return [];
  const ids = pathTo(winner).map((n) => n.data.token_id);
  const beside = shownOf(run, run.steps.length - 1).greedy;
  const { paid } = beside;
  const charges = paid > 0 ? ` Diversity charges are ${fixed(paid, 2)} of the winner's sum.` : "";
  const other = greedy.token_ids;
  const numbers = { length: other.length, sum: greedy.sum_logprobs, score: greedy.score };
  const { sum_logprobs: sum, score } = winner.data;
  return [
    el("h4", {}, "Greedy search beside it"),
    side("g", "greedy", line(run, other, greedy.left_at), numbers),
    side("b", "beams", line(run, ids, greedy.left_at), { length: ids.length, sum, score }),
    el(
      "p",
      { class: "dp-note" },
      partingOf(run, forest, ids, greedy, beside.path) + gainOf(beside) + charges,
    ),
  ];
}
