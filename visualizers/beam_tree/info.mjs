// What is told about a beam search beside its tree: a node, the stopping test, the greedy path, the table.

import { el } from "../shared/dom.mjs";
import { percent, piece, prob, visible } from "../shared/text.mjs";
import { charged, pathTo, SAY, scoreOf, signed, textTo, verdict } from "./words.mjs";

const fact = (name, value) =>
  value === null || value === "" ? null : el("span", {}, `${name} `, el("b", {}, value));
const pick = (run, node) => [
  node.column + 1,
  node.data.rank + 1,
  piece(run, node.data.token_id),
  node.parent ? piece(run, node.parent.data.token_id) : "prompt",
  percent(prob(node.data.logprob)),
  signed(node.data.logprob),
  signed(node.data.sum_logprobs),
  signed(node.data.score),
  signed(node.data.margin),
  SAY[node.data.fate] +
    (node.data.reason ? `: ${node.data.reason}` : "") +
    (charged(node.data) ? ` (${charged(node.data)})` : ""),
];
const many = (x) =>
  x >= 1e6
    ? x.toExponential(1).replace("e+", " · 10^")
    : x >= 100
      ? Math.round(x).toLocaleString("en")
      : x.toPrecision(3);
const HEAD = [
  "step",
  "rank",
  "token",
  "after",
  "p",
  "log p",
  "sum",
  "score",
  "margin",
  "what became of it",
];

const heading = (name) =>
  el(
    "th",
    { scope: "col", class: ["token", "after", HEAD[9]].includes(name) ? null : "num" },
    name,
  );

export function factsOf(run, node, size) {
  const d = node.data;
  return [
    el(
      "p",
      { class: "bt-title" },
      el("b", {}, piece(run, d.token_id)),
      ` at step ${node.column + 1}: ${SAY[d.fate]}. ${verdict(d)} ${d.reason}${node.dead ? " None of its continuations were kept later." : ""}`,
    ),
    el(
      "div",
      { class: "dp-costs" },
      fact("p", percent(prob(d.logprob))),
      fact("log p", signed(d.logprob)),
      fact("sum", signed(d.sum_logprobs)),
      fact("score", scoreOf(d.sum_logprobs, node.column + 1, run.config.length_penalty, d.score)),
      fact("rank", `${d.rank + 1} of ${size}`),
      fact("margin", signed(d.margin)),
      fact(
        "drawn at arrival",
        d.arrival === null || d.arrival === undefined ? null : d.arrival.toPrecision(3),
      ),
      fact("diversity", charged(d)),
    ),
  ];
}
// The pool of the node's group, in the order the search considered it.
export function poolOf(run, node, members, go) {
  const rows = members.map((n) =>
    el(
      "tr",
      {
        class:
          (n === node ? "on" : "") +
          (n.data.fate === "kept" || n.data.fate === "finished" ? "" : " ghost"),
      },
      pick(run, n)
        .slice(1)
        .map((cell, i) =>
          i === 1
            ? el(
                "th",
                { scope: "row" },
                el("button", { type: "button", class: "bt-link", onclick: () => go(n) }, cell),
              )
            : el("td", { class: i !== 2 && i < 8 ? "num" : null }, cell),
        ),
    ),
  );
  return el(
    "div",
    {
      class: "dp-scroll",
      tabindex: 0,
      role: "region",
      "aria-label": `Pool of step ${node.column + 1}`,
    },
    el(
      "table",
      { class: "dp-table bt-pool" },
      el("thead", {}, el("tr", {}, HEAD.slice(1).map(heading))),
      el("tbody", {}, rows),
    ),
  );
}
// One ranked text with its arithmetic.
export const entry = (place, sum, text, more) =>
  el(
    "li",
    {},
    el("span", { class: "place" }, place),
    el("span", { class: "sum" }, sum),
    el("span", { class: "text" }, text),
    more,
  );

// The finished texts after a step and the test that decides whether the search goes on.
export function stateOf(run, forest, index) {
  const d = run.steps[index].detail,
    size = run.config.num_beams,
    penalty = run.config.length_penalty;
  const early = run.config.early_stopping,
    numbers =
      d.best_running === null || d.worst_finished === null
        ? ""
        : `${run.config.num_beam_groups > 1 ? "Over all groups, an" : "An"} open beam could ${early === "never" && penalty > 0 ? "at best, at the longest length," : "now"} reach ${signed(d.best_running)}; the worst finished text has ${signed(d.worst_finished)}.`;
  const end = d.stopping
    ? `The search ends: ${d.stop_reason}`
    : d.heap.length < size && d.worst_finished === null
      ? `The search goes on: ${d.heap.length} of ${size} places for finished texts are taken.`
      : "The search goes on.";
  const items = d.heap.map((h, i) =>
    entry(
      (h.node_id === d.winner_node_id ? "★ " : "") + (i + 1),
      scoreOf(h.sum_logprobs, h.length, penalty, h.score),
      textTo(run, forest.nodes.get(h.node_id)),
    ),
  );
  return [
    el("h4", {}, `Finished texts after step ${index + 1}`),
    items.length
      ? el(
          "ol",
          { class: "bt-heap", tabindex: 0, "aria-label": "Finished texts, best first" },
          items,
        )
      : el("p", { class: "dp-note" }, "None yet."),
    el("p", { class: "dp-note bt-test" }, [numbers, end].filter(Boolean).join(" ")),
  ];
}
// Greedy search beside the winner: both texts from where they part, and their sums.
export function greedyOf(run, forest, detail) {
  const g = detail.greedy,
    winner = forest.nodes.get(detail.winner_node_id);
  if (!g || !winner) return [];
  const mine = pathTo(winner),
    ids = mine.map((n) => n.data.token_id),
    at = g.left_at,
    paid = mine.reduce((sum, n) => sum + n.data.diversity_penalty, 0);
  const name = (list, i) => (list[i] === undefined ? "(end)" : piece(run, list[i]));
  const line = (list) => {
    const cut = at === null ? list.length : at,
      words = (from, to) =>
        visible(
          list
            .slice(from, to)
            .map((id) => run.pieces[id] ?? `#${id}`)
            .join(""),
        );
    const next = at === null ? "" : list[cut] === undefined ? "(end)" : words(cut, cut + 1),
      gap = /^ */.exec(next)[0];
    return el(
      "span",
      { class: "bt-words" },
      el("span", { class: "same" }, words(0, cut).trimStart()),
      gap,
      next ? el("b", {}, next.slice(gap.length)) : null,
      words(cut + 1),
    );
  };
  const row = (kind, label, list, sum, value) =>
    el(
      "div",
      { class: `bt-side ${kind}` },
      el("span", { class: "who" }, label),
      line(list),
      el(
        "span",
        { class: "sum" },
        "log-probability ",
        el("b", {}, signed(sum)),
        ` over ${list.length} tokens, score ${signed(value)}`,
      ),
    );
  const found = forest.follow(g.token_ids),
    last = found[found.length - 1];
  const lost =
    !last || (found.length === g.token_ids.length && last.data.fate !== "pruned")
      ? ""
      : last.data.fate === "pruned"
        ? ` Its path was dropped at step ${last.column + 1}, as number ${last.data.rank + 1} of the pool.`
        : ` Its path left the pool after step ${last.column + 1}.`;
  const parts =
    at === null
      ? "Beam search ends on the greedy path itself."
      : `Beam search leaves the greedy path at token ${at + 1}: “${name(ids, at)}” instead of “${name(g.token_ids, at)}”.${lost}`;
  const gain = winner.data.sum_logprobs - g.sum_logprobs,
    factor = Math.exp(Math.abs(gain));
  const times =
    ids.length !== g.token_ids.length || factor < 1.005
      ? ""
      : `${gain > 0 ? " The winner" : " The greedy text"} is ${many(factor)} times as probable as ${gain > 0 ? "the greedy text." : "the winner."}`;
  return [
    el("h4", {}, "Greedy search beside it"),
    row("g", "greedy", g.token_ids, g.sum_logprobs, g.score),
    row("b", "beams", ids, winner.data.sum_logprobs, winner.data.score),
    el(
      "p",
      { class: "dp-note" },
      parts +
        times +
        (paid > 0 ? ` Diversity charges are ${paid.toFixed(2)} of the winner's sum.` : ""),
    ),
  ];
}
// Every candidate as a table that only grows.
export function tableOfNodes(columns) {
  const body = el("tbody", {});
  let shown = 0;
  return {
    box: el(
      "div",
      {
        class: "dp-scroll",
        tabindex: 0,
        role: "region",
        "aria-label": "Every candidate of every step",
      },
      el(
        "table",
        { class: "dp-table" },
        el("thead", {}, el("tr", {}, [...HEAD.slice(0, 9), "group", HEAD[9]].map(heading))),
        body,
      ),
    ),
    grow(run) {
      for (; shown < columns.length; shown++)
        for (const node of columns[shown]) {
          const cells = pick(run, node);
          cells.splice(9, 0, node.data.group + 1);
          body.append(
            el(
              "tr",
              {
                class: node.data.fate === "kept" || node.data.fate === "finished" ? null : "ghost",
              },
              cells.map((cell, i) =>
                el("td", { class: [0, 1, 4, 5, 6, 7, 8, 9].includes(i) ? "num" : null }, cell),
              ),
            ),
          );
        }
    },
  };
}
