// Texts and tables below the tree: a node, its pool, the stopping test and the table of all nodes.
import { createFact, createScroller, el } from "../shared/dom.mjs";
import { said } from "../shared/server_text.mjs";
import { renderTerms, term } from "../shared/terms.mjs";
import {
  FATE_TEXT,
  formatFixed,
  formatPercent,
  formatPrecise,
  tokenLabel,
} from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { isContinued } from "./forest.mjs";
import { chargeText, marginText, pathText, probabilityFacts, scoreText } from "./words.mjs";

/** @import { Forest } from "./forest.mjs" */
/** @import { TreeNode } from "./tree.d.ts" */

/** @type {Record<string, string>} */
const COLUMN_NAMES = {
  step: tr("step"),
  rank: tr("[rank]"),
  token: tr("token"),
  after: tr("after"),
  used: tr("probability with your settings"),
  logprob: tr("[log-probability]"),
  sum: tr("[sum of log-probabilities|sum]"),
  score: tr("[score]"),
  margin: tr("[margin]"),
  group: tr("[group]"),
  fate: tr("result"),
};
const POOL_COLUMNS = [
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
const TEXT_COLUMNS = ["token", "after", "fate"];
// Indices of the number columns of the full table, which has the group before the last column.
const NUMBER_COLUMNS = [0, 1, 4, 5, 6, 7, 8, 9];

/**
 * @param {string} name
 * @param {string | null} value
 */
const createKnownFact = (name, value) =>
  value === null || value === "" ? null : createFact(renderTerms(name), value);

/** @param {string} name */
const createHeading = (name) =>
  el(
    "th",
    { scope: "col", class: TEXT_COLUMNS.includes(name) ? null : "num" },
    renderTerms(COLUMN_NAMES[name]),
  );

/** @param {BeamNode} data */
function fateText(data) {
  const diversity = chargeText(data);
  return (
    FATE_TEXT[data.fate] +
    (data.reason ? `: ${said(data.reason)}` : "") +
    (diversity ? ` (${diversity})` : "")
  );
}

/**
 * @param {Run} run
 * @param {TreeNode} node
 */
const nodeCells = (run, node) => [
  node.column + 1,
  node.data.rank + 1,
  tokenLabel(run, node.data.token_id),
  node.parent ? tokenLabel(run, node.parent.data.token_id) : tr("prompt"),
  formatPercent(node.p),
  formatFixed(node.data.logprob),
  formatFixed(node.data.sum_logprobs),
  formatFixed(node.data.score),
  formatFixed(node.data.margin),
  fateText(node.data),
];

/**
 * What became of a node, in a sentence.
 * @param {Run} run
 * @param {TreeNode} node
 * @param {...Content} more
 */
const createFate = (run, { data, column }, ...more) =>
  el(
    "p",
    { class: "bt-title" },
    el("b", {}, tokenLabel(run, data.token_id)),
    tr(" at step {n}: {fate}.", { n: column + 1, fate: FATE_TEXT[data.fate] }),
    more,
  );

/**
 * @param {Run} run
 * @param {TreeNode} node
 */
export const createNodeTitle = (run, node) =>
  createFate(run, node, tr(" Probability: {p}.", { p: formatPercent(node.p) }));

/**
 * @param {Run} run
 * @param {TreeNode} node
 * @param {number} size
 */
export function createNodeFacts(run, node, size) {
  const d = node.data;
  const died = node.dead ? tr(" None of its continuations were kept later.") : "";
  const step = node.column + 1;
  const arrival = d.arrival === null || d.arrival === undefined ? null : formatPrecise(d.arrival);
  const score = scoreText(d.sum_logprobs, step, run.config.length_penalty, d.score);
  return [
    createFate(run, node, ` ${marginText(d)} ${said(d.reason)}${died}`),
    el(
      "div",
      { class: "dp-costs" },
      ...probabilityFacts(node).map(([name, value]) => createKnownFact(name, value)),
      createKnownFact(COLUMN_NAMES.logprob, formatFixed(d.logprob)),
      createKnownFact(tr("sum of log-probabilities"), formatFixed(d.sum_logprobs)),
      createKnownFact(COLUMN_NAMES.score, score),
      createKnownFact(COLUMN_NAMES.rank, tr("{n} of {total}", { n: d.rank + 1, total: size })),
      createKnownFact(COLUMN_NAMES.margin, formatFixed(d.margin)),
      createKnownFact(tr("drawn at [arrival]"), arrival),
      createKnownFact(tr("[diversity penalty|diversity]"), chargeText(d)),
    ),
  ];
}

/**
 * The pool of the node's group as a table, in the order of the search.
 * @param {Run} run
 * @param {TreeNode} node
 * @param {TreeNode[]} members
 * @param {(node: TreeNode) => void} go
 */
export function createPool(run, node, members, go) {
  /** @param {TreeNode} member */
  const cell = (member) => (/** @type {string | number} */ text, /** @type {number} */ i) =>
    i === 1
      ? el(
          "th",
          { scope: "row" },
          createLink(text, () => go(member)),
        )
      : el("td", { class: i !== 2 && i < 8 ? "num" : null }, text);
  const rows = members.map((member) =>
    el(
      "tr",
      { class: (member === node ? "on" : "") + (isContinued(member) ? "" : " ghost") },
      nodeCells(run, member).slice(1).map(cell(member)),
    ),
  );
  return createScroller(
    tr("Pool of step {n}", { n: node.column + 1 }),
    el(
      "table",
      { class: "dp-table bt-pool" },
      el("thead", {}, el("tr", {}, POOL_COLUMNS.slice(1).map(createHeading))),
      el("tbody", {}, rows),
    ),
  );
}

/**
 * @param {Content} text
 * @param {() => void} onclick
 */
const createLink = (text, onclick) =>
  el("button", { type: "button", class: "bt-link", onclick }, text);

/**
 * List item of a ranked text with the arithmetic of its score.
 * @param {string} place
 * @param {string} sum
 * @param {string} text
 * @param {Content} [more]
 */
export const createEntry = (place, sum, text, more) =>
  el(
    "li",
    {},
    el("span", { class: "place" }, place),
    el("span", { class: "sum" }, sum),
    el("span", { class: "text" }, text),
    more,
  );

/**
 * A sentence on the two scores that the stopping test compared.
 * @param {Record<string, any>} config
 * @param {BeamDetail} detail
 */
function stopTestText(config, detail) {
  if (detail.best_running === null || detail.worst_finished === null) return "";
  const longest = config.early_stopping === "never" && config.length_penalty > 0;
  const values = {
    best: formatFixed(detail.best_running),
    worst: formatFixed(detail.worst_finished),
  };
  if (config.num_beam_groups > 1)
    return longest
      ? tr(
          "At the longest length, an unfinished text of any group could reach {best}; the worst finished text has {worst}.",
          values,
        )
      : tr(
          "An unfinished text of any group could now reach {best}; the worst finished text has {worst}.",
          values,
        );
  return longest
    ? tr(
        "At the longest length, an unfinished text could reach {best}; the worst finished text has {worst}.",
        values,
      )
    : tr("An unfinished text could now reach {best}; the worst finished text has {worst}.", values);
}

/**
 * @param {Record<string, any>} config
 * @param {BeamDetail} detail
 */
function outcomeText(config, detail) {
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
 * @param {Forest} forest
 * @param {number} index
 */
export function createSearchState(run, forest, index) {
  /** @type {BeamDetail} */
  const detail = run.steps[index].detail;
  const penalty = run.config.length_penalty;
  const items = detail.heap.map((h, i) => {
    const star = h.node_id === detail.winner_node_id ? "★ " : "";
    const sum = scoreText(h.sum_logprobs, h.length, penalty, h.score);
    const group = run.config.num_beam_groups > 1 ? tr(" (group {n})", { n: h.group + 1 }) : "";
    const node = forest.nodes.get(h.node_id);
    return createEntry(star + (i + 1), sum + group, node ? pathText(run, node) : "");
  });
  const list = { class: "bt-heap", tabindex: 0, "aria-label": tr("Finished texts, best first") };
  const words = [stopTestText(run.config, detail), outcomeText(run.config, detail)];
  return [
    el("h4", {}, term("hypothesis", tr("Finished texts")), tr(" after step {n}", { n: index + 1 })),
    items.length ? el("ol", list, items) : el("p", { class: "dp-note" }, tr("None yet.")),
    el("p", { class: "dp-note bt-test" }, words.filter(Boolean).join(" ")),
  ];
}

/**
 * A table of all candidates. Rows are only ever added.
 * @param {TreeNode[][]} columns
 */
export function createNodeTable(columns) {
  const body = el("tbody", {});
  const head = [...POOL_COLUMNS.slice(0, 9), "group", "fate"].map(createHeading);
  const table = el("table", { class: "dp-table" }, el("thead", {}, el("tr", {}, head)), body);
  let shown = 0;
  /**
   * @param {Run} run
   * @param {TreeNode} node
   */
  const rowOf = (run, node) => {
    const cells = nodeCells(run, node);
    cells.splice(9, 0, node.data.group + 1);
    const boxes = cells.map((cell, i) =>
      el("td", { class: NUMBER_COLUMNS.includes(i) ? "num" : null }, cell),
    );
    return el("tr", { class: isContinued(node) ? null : "ghost" }, boxes);
  };
  return {
    box: createScroller(tr("Every candidate of every step"), table),
    /** @param {Run} run */
    grow(run) {
      for (; shown < columns.length; shown++)
        body.append(...columns[shown].map((node) => rowOf(run, node)));
    },
  };
}
