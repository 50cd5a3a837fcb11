// Texts and tables below the tree: a node, its pool, the stopping test and the table of all nodes.
import { el, fact, scroller } from "../shared/dom.mjs";
import { said } from "../shared/server_text.mjs";
import { term, told } from "../shared/terms.mjs";
import { fixed, percent, piece, precise, SAY } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { charged, probabilitiesOf, scoreOf, textTo, verdict } from "./words.mjs";

const NAMES = {
  step: tr("step"),
  rank: tr("[rank]"),
  token: tr("token"),
  after: tr("after"),
  used: tr("probability as used"),
  logprob: tr("[log-probability]"),
  sum: tr("[sum of log-probabilities|sum]"),
  score: tr("[score]"),
  margin: tr("[margin]"),
  group: tr("[group]"),
  fate: tr("what became of it"),
};
const HEAD = [
  "step",
  "rank",
  "token",
  "after",
  "used",
  "logprob",
  "sum",
  "score",
  "margin",
  "fate",
];
const WORDS = ["token", "after", "fate"];
// Indices of the number columns of the full table, which has the group before the last column.
const NUMBERS = [0, 1, 4, 5, 6, 7, 8, 9];

const known = (name, value) => (value === null || value === "" ? null : fact(told(name), value));

const heading = (name) =>
  el("th", { scope: "col", class: WORDS.includes(name) ? null : "num" }, told(NAMES[name]));

export const goesOn = (node) => node.data.fate === "kept" || node.data.fate === "finished";

function becameOf(data) {
  const diversity = charged(data);
  return (
    SAY[data.fate] +
    (data.reason ? `: ${said(data.reason)}` : "") +
    (diversity ? ` (${diversity})` : "")
  );
}

const cellsOf = (run, node) => [
  node.column + 1,
  node.data.rank + 1,
  piece(run, node.data.token_id),
  node.parent ? piece(run, node.parent.data.token_id) : tr("prompt"),
  percent(node.p),
  fixed(node.data.logprob),
  fixed(node.data.sum_logprobs),
  fixed(node.data.score),
  fixed(node.data.margin),
  becameOf(node.data),
];

/** @param {Run} run */
export function factsOf(run, node, size) {
  const d = node.data;
  const died = node.dead ? tr(" None of its continuations were kept later.") : "";
  const step = node.column + 1;
  const arrival = d.arrival === null || d.arrival === undefined ? null : precise(d.arrival, 3);
  const score = scoreOf(d.sum_logprobs, step, run.config.length_penalty, d.score);
  return [
    el(
      "p",
      { class: "bt-title" },
      el("b", {}, piece(run, d.token_id)),
      tr(" at step {n}: {fate}.", { n: step, fate: SAY[d.fate] }),
      ` ${verdict(d)} ${said(d.reason)}${died}`,
    ),
    el(
      "div",
      { class: "dp-costs" },
      ...probabilitiesOf(node).map(([name, value]) => known(name, value)),
      known(NAMES.logprob, fixed(d.logprob)),
      known(tr("sum of log-probabilities"), fixed(d.sum_logprobs)),
      known(NAMES.score, score),
      known(NAMES.rank, tr("{n} of {total}", { n: d.rank + 1, total: size })),
      known(NAMES.margin, fixed(d.margin)),
      known(tr("drawn at [arrival]"), arrival),
      known(tr("[diversity penalty|diversity]"), charged(d)),
    ),
  ];
}

/**
 * The pool of the node's group as a table, in the order of the search.
 * @param {Run} run
 */
export function poolOf(run, node, members, go) {
  const cell = (member) => (text, i) =>
    i === 1
      ? el(
          "th",
          { scope: "row" },
          link(text, () => go(member)),
        )
      : el("td", { class: i !== 2 && i < 8 ? "num" : null }, text);
  const rows = members.map((member) =>
    el(
      "tr",
      { class: (member === node ? "on" : "") + (goesOn(member) ? "" : " ghost") },
      cellsOf(run, member).slice(1).map(cell(member)),
    ),
  );
  return scroller(
    tr("Pool of step {n}", { n: node.column + 1 }),
    el(
      "table",
      { class: "dp-table bt-pool" },
      el("thead", {}, el("tr", {}, HEAD.slice(1).map(heading))),
      el("tbody", {}, rows),
    ),
  );
}

const link = (text, onclick) => el("button", { type: "button", class: "bt-link", onclick }, text);

// List item of a ranked text with the arithmetic of its score.
export const entry = (place, sum, text, more) =>
  el(
    "li",
    {},
    el("span", { class: "place" }, place),
    el("span", { class: "sum" }, sum),
    el("span", { class: "text" }, text),
    more,
  );

// A sentence on the two scores that the stopping test compared.
function testOf(config, detail) {
  if (detail.best_running === null || detail.worst_finished === null) return "";
  const longest = config.early_stopping === "never" && config.length_penalty > 0;
  const values = { best: fixed(detail.best_running), worst: fixed(detail.worst_finished) };
  if (config.num_beam_groups > 1)
    return longest
      ? tr(
          "Over all groups, an open beam could at best, at the longest length, reach {best}; the worst finished text has {worst}.",
          values,
        )
      : tr(
          "Over all groups, an open beam could now reach {best}; the worst finished text has {worst}.",
          values,
        );
  return longest
    ? tr(
        "An open beam could at best, at the longest length, reach {best}; the worst finished text has {worst}.",
        values,
      )
    : tr("An open beam could now reach {best}; the worst finished text has {worst}.", values);
}

function outcomeOf(config, detail) {
  const size = config.num_beams;
  if (detail.stopping) return tr("The search ends: {reason}", { reason: said(detail.stop_reason) });
  if (detail.heap.length >= size || detail.worst_finished !== null)
    return tr("The search goes on.");
  return tr("The search goes on: {n} of {total} places for finished texts are taken.", {
    n: detail.heap.length,
    total: size,
  });
}

/**
 * The finished texts after a step, and the test whether the search goes on.
 * @param {Run} run
 */
export function stateOf(run, forest, index) {
  const { detail } = run.steps[index];
  const penalty = run.config.length_penalty;
  const items = detail.heap.map((h, i) => {
    const star = h.node_id === detail.winner_node_id ? "★ " : "";
    const sum = scoreOf(h.sum_logprobs, h.length, penalty, h.score);
    const group = run.config.num_beam_groups > 1 ? tr(" (group {n})", { n: h.group + 1 }) : "";
    return entry(star + (i + 1), sum + group, textTo(run, forest.nodes.get(h.node_id)));
  });
  const list = { class: "bt-heap", tabindex: 0, "aria-label": tr("Finished texts, best first") };
  const words = [testOf(run.config, detail), outcomeOf(run.config, detail)];
  return [
    el("h4", {}, term("hypothesis", tr("Finished texts")), tr(" after step {n}", { n: index + 1 })),
    items.length ? el("ol", list, items) : el("p", { class: "dp-note" }, tr("None yet.")),
    el("p", { class: "dp-note bt-test" }, words.filter(Boolean).join(" ")),
  ];
}

// A table of all candidates. Rows are only ever added.
export function tableOfNodes(columns) {
  const body = el("tbody", {});
  const head = [...HEAD.slice(0, 9), "group", "fate"].map(heading);
  const table = el("table", { class: "dp-table" }, el("thead", {}, el("tr", {}, head)), body);
  let shown = 0;
  const rowOf = (run, node) => {
    const cells = cellsOf(run, node);
    cells.splice(9, 0, node.data.group + 1);
    const boxes = cells.map((cell, i) =>
      el("td", { class: NUMBERS.includes(i) ? "num" : null }, cell),
    );
    return el("tr", { class: goesOn(node) ? null : "ghost" }, boxes);
  };
  return {
    box: scroller(tr("Every candidate of every step"), table),
    grow(run) {
      for (; shown < columns.length; shown++)
        body.append(...columns[shown].map((node) => rowOf(run, node)));
    },
  };
}
