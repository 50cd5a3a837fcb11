// View of a custom method's run, one row per forward pass: tokens read, removed and written.
import { createFact, createTable, el } from "../shared/dom.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { formatFixed, tokensText } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { createAxis, createScale } from "./lane.mjs";
import { PassRows } from "./rows.mjs";
import { gapsText, OUTSIDE_NOTE, stepSummary, stepText, summaryText } from "./words.mjs";

/** @import { ForwardFigures } from "../shared/summaries.d.ts" */

/** @type {Record<string, number>} */
const KEY_MOVES = { ArrowUp: -1, ArrowDown: 1 };

/**
 * @param {string} kind
 * @param {...Content} words
 */
const createKey = (kind, ...words) =>
  el(
    "span",
    {},
    el("span", { class: "ft-key" }, el("i", { class: kind })),
    " ",
    words.map((word) => (typeof word === "string" ? renderTerms(word) : word)),
  );

/**
 * @param {string} kind
 * @param {string} mark
 * @param {string} words
 */
const createSign = (kind, mark, words) =>
  el("span", {}, el("b", { class: kind }, mark), " ", renderTerms(words));

/**
 * Entries of the legend, each with a test whether the run so far needs it.
 * @returns {[HTMLElement, (figures: ForwardFigures) => boolean | number][]}
 */
const createSigns = () => [
  [createKey("held", tr("stored in the [cache]")), ({ held }) => held],
  [createKey("read", tr("read in this pass")), ({ passes }) => passes],
  [createSign("ft-times", "×2", tr("in two rows at once")), ({ rows }) => rows > 1],
  [createSign("ft-other-text", "≠", tr("read another text")), ({ aside }) => aside],
  [createKey("end", tr("end of the prompt")), ({ passes }) => passes],
  [
    createKey("gone", el("b", { class: "ft-mark back" }, "↶ "), tr("taken back after it")),
    ({ back, left }) => back || left,
  ],
  [createSign("ft-mark", "✎", tr("written")), () => true],
  [createSign("ft-streamed", "⇥", tr("handed to the [streamer]")), ({ declared }) => declared],
];

/** @param {HTMLElement} axis */
const createHeadings = (axis) =>
  el(
    "div",
    { class: "ft-row ft-heads" },
    el("span", {}, renderTerms(tr("[forward pass|pass]"))),
    axis,
    el("span", {}, tr("read, stored")),
    el("span", {}, tr("result")),
    el("span", { class: "ft-time", title: tr("Since the pass before had ended") }, tr("took")),
  );

/** @param {Run} run */
const hasEnded = (run) => !["running", "paused"].includes(run.status);

/** @param {Step} step */
const isForwardStep = (step) => step.detail?.kind === "forward";

/**
 * @param {Run} run
 * @param {Step} step
 */
function tableRows(run, step) {
  const { rows } = stepSummary(run, step);
  return rows.map((row, i) => {
    const pass = step.detail.passes[i];
    const last = i === rows.length - 1;
    return [
      step.index + 1,
      row.number ?? "",
      ...(pass
        ? [
            pass.aside ? tr("another") : tr("its own"),
            pass.rows,
            pass.read,
            pass.cached,
            pass.length,
          ]
        : ["", "", "", "", ""]),
      tokensText(run, row.gone),
      last ? tokensText(run, step.emit) : "",
      last ? step.detail.declared : "",
      pass?.elapsed_s ? formatFixed(pass.elapsed_s) : "",
    ];
  });
}

const COLUMNS = [
  tr("step"),
  tr("pass"),
  tr("text read"),
  tr("rows"),
  tr("tokens read"),
  tr("stored"),
  tr("tokens of the text"),
  tr("taken back"),
  tr("written"),
  tr("to the streamer"),
  tr("ended at, s"),
];

/** @param {Run} run */
const createPassTable = (run) =>
  createTable(
    COLUMNS,
    run.steps.filter(isForwardStep).flatMap((step) => tableRows(run, step)),
  );

/** @param {ForwardFigures} figures */
function createCosts(figures) {
  const { tokens_per_pass: each, read, back, left, declared } = figures;
  return [
    createFact(tr("tokens per pass"), each === null ? "–" : formatFixed(each, 2)),
    createFact(tr("tokens read, all rows"), read),
    createFact(tr("taken back"), back),
    ...(left ? [createFact(tr("not returned"), left)] : []),
    createFact(tr("handed to the streamer"), declared),
  ];
}

class ForwardTimeline {
  /** @type {Run | null} */
  #run = null;
  /** The marked step, and the step that was scrolled to. */
  #marked = -1;
  #scrolledTo = -1;
  /** Last step and status that the sentences describe. */
  #drawnKey = "";

  /**
   * @param {HTMLElement} root
   * @param {Context} ctx
   */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.summary = el("p", { class: "ft-summary" });
    this.unseen = el("p", { class: "dp-note ft-gaps" });
    this.rows = new PassRows((index) => ctx.select(index));
    this.axis = el("div", { class: "ft-axis", "aria-hidden": "true" });
    this.box = el(
      "div",
      {
        class: "ft-box",
        role: "group",
        "aria-label": tr("Forward passes; arrow keys move from step to step"),
        /** @param {KeyboardEvent} event */
        onkeydown: (event) => this.#handleKey(event),
      },
      createHeadings(this.axis),
      this.rows.before,
      this.rows.list,
      this.rows.after,
    );
    this.step = el("p", { class: "dp-note ft-step" });
    this.costs = el("div", { class: "dp-costs" });
    this.tableBody = el("div", {});
    this.more = el(
      "details",
      { class: "ft-more", ontoggle: () => this.#updateTable() },
      el("summary", {}, tr("Table of every forward pass")),
      this.tableBody,
    );
    this.signs = createSigns();
    const legend = el(
      "div",
      { class: "dp-legend ft-legend" },
      this.signs.map(([node]) => node),
    );
    const above = [this.summary, el("p", { class: "dp-note" }, OUTSIDE_NOTE), this.unseen, legend];
    root.append(...above, this.box, this.step, this.costs, this.more);
  }

  clear() {
    this.#run = null;
    this.#marked = this.#scrolledTo = -1;
    this.#drawnKey = "";
    this.rows.clear();
    for (const node of [
      this.summary,
      this.unseen,
      this.step,
      this.costs,
      this.tableBody,
      this.axis,
    ])
      node.replaceChildren();
  }

  #updateTable() {
    if (this.more.open && this.#run) this.tableBody.replaceChildren(createPassTable(this.#run));
  }

  /** @param {KeyboardEvent} event */
  #handleKey(event) {
    const move = KEY_MOVES[event.key];
    if (event.key === "Home") this.ctx.select(0);
    else if (event.key === "End") this.ctx.select(1e9);
    else if (move) this.ctx.select((this.#run?.selected ?? 0) + move);
    else return;
    event.preventDefault();
    requestAnimationFrame(() => requestAnimationFrame(() => this.rows.chosen?.focus()));
  }

  /**
   * @param {Run} run
   * @param {number} from
   */
  update(run, from) {
    this.#run = run;
    const fresh = run.steps.slice(from).filter(isForwardStep);
    for (const step of fresh) this.rows.add(run, step);
    const last = run.steps.findLast(isForwardStep);
    const said = `${last?.index} ${run.status}`;
    if (!last || said === this.#drawnKey) return;
    this.#drawnKey = said;
    const ended = hasEnded(run);
    const { figures } = stepSummary(run, last);
    this.summary.replaceChildren(...renderTerms(summaryText(figures, ended)));
    const unseen = gapsText(figures, ended);
    this.unseen.replaceChildren(...renderTerms(unseen));
    this.unseen.hidden = !unseen;
    for (const [node, has] of this.signs) node.hidden = !has(figures);
    this.costs.replaceChildren(...createCosts(figures));
    this.#updateTable();
    this.#marked = -1;
  }

  /**
   * @param {Run} run
   * @param {number} index
   */
  select(run, index) {
    const last = run.steps.findLast(isForwardStep);
    if (index === this.#marked || !last) return;
    this.#marked = index;
    const shown = stepSummary(run, last);
    const scale = createScale(shown, hasEnded(run));
    const start = run.model.is_encoder_decoder ? tr("start") : tr("prompt");
    this.axis.replaceChildren(...createAxis(scale, start));
    const row = this.rows.show(run, index, scale);
    // New passes do not scroll the list again, so that a visitor can look at earlier rows.
    if (row && index !== this.#scrolledTo) this.#scrollToRow(row);
    this.#scrolledTo = index;
    const step = run.steps[index];
    this.step.replaceChildren();
    if (isForwardStep(step))
      this.step.append(
        el("b", {}, ...renderTerms(tr("[step|Step] {n}. ", { n: index + 1 }))),
        stepText(run, step),
      );
  }

  /** @param {HTMLElement} row */
  #scrollToRow(row) {
    const { scrollTop, clientHeight } = this.box;
    const below = row.offsetTop + row.offsetHeight > scrollTop + clientHeight;
    const above = row.offsetTop < scrollTop + (this.axis.parentElement?.offsetHeight ?? 0);
    if (below || above) this.box.scrollTop = row.offsetTop - clientHeight / 2;
  }
}

/** @type {ViewSpec} */
export const forwardTimeline = {
  title: tr("Forward passes, one by one"),
  place: "drawer",
  tab: tr("Passes"),
  empty: tr(
    "One row for each forward pass of the model: what it read, what was taken back after it, and what was written.",
  ),
  mount: (root, ctx) => new ForwardTimeline(root, ctx),
};
