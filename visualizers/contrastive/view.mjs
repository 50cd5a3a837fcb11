// View of contrastive search: confidence and degeneration penalty of every candidate.
import { createTable, el } from "../shared/dom.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { formatFixed, formatPercent, tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { createCandidateRows } from "./bars.mjs";
import { ContextLine } from "./line.mjs";
import {
  contextIds,
  isContrastiveStep,
  reasonText,
  START_TEXT,
  stepSummary,
  totalText,
} from "./words.mjs";

const COLUMNS = [
  tr("step"),
  tr("token"),
  tr("probability with your settings"),
  tr("confidence"),
  tr("max cosine"),
  tr("penalty"),
  tr("score"),
  tr("similar to"),
  tr("token number"),
];

/**
 * @param {string} kind
 * @param {string} words
 */
const createKey = (kind, words) =>
  el("span", {}, el("i", { class: `cs-key ${kind}` }), renderTerms(words));

const createLegend = () =>
  el(
    "div",
    { class: "dp-legend cs-legend" },
    createKey("pen", tr(" [degeneration penalty|penalty] α · [cosine], counted against")),
    createKey("conf", tr(" [confidence] (1 − α) · p, counted for")),
    createKey("mark", tr(" score: the sum; highest wins")),
  );

/**
 * @param {Run} run
 * @param {Step} step
 * @param {ContrastiveOption} option
 * @param {number} k
 */
function candidateCells(run, step, option, k) {
  const { confidence, max_cosine, degeneration_penalty, score } = option;
  const like = stepSummary(run, step).like[k];
  return [
    step.index + 1,
    (k === step.detail.chosen ? "▸ " : "") + tokenLabel(run, option.token_id),
    formatPercent(option.probability),
    ...[confidence, max_cosine, degeneration_penalty, score].map((x) => formatFixed(x)),
    like === null ? START_TEXT : tokenLabel(run, like),
    option.position < 0 ? "–" : option.position + 1,
  ];
}

/** @param {Run} run */
function createCandidateTable(run) {
  const rows = run.steps.filter(isContrastiveStep).flatMap((step) => {
    /** @type {ContrastiveDetail} */
    const { options } = step.detail;
    return options.map((option, k) => candidateCells(run, step, option, k));
  });
  return createTable(COLUMNS, rows);
}

/**
 * Button for a step where similarity changed the choice:
 * the most probable token and the chosen one.
 * @param {Run} run
 * @param {Step} step
 * @param {() => void} choose
 */
function createChip(run, step, choose) {
  const { options, chosen } = step.detail;
  const [was, is] = [options[0], options[chosen]].map((o) => tokenLabel(run, o.token_id));
  return el(
    "button",
    {
      type: "button",
      class: "cs-chip",
      onclick: choose,
      "aria-label": tr("Step {n}: “{was}” replaced by “{is}”", { n: step.index + 1, was, is }),
    },
    el("s", {}, was),
    " → ",
    el("b", {}, is),
  );
}

class Contrastive {
  /** @type {Run | null} */
  #run = null;
  #drawnKey = "";
  #stepCount = 0;

  /**
   * @param {HTMLElement} root
   * @param {Context} ctx
   */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.line = new ContextLine();
    this.bars = el("div", {
      class: "cs-bars",
      role: "list",
      "aria-label": tr("Candidates, most probable first"),
    });
    this.note = el("p", { class: "dp-note", "aria-live": "polite" });
    this.total = el("p", { class: "dp-note cs-total" });
    this.chips = el("div", {
      class: "cs-chips",
      role: "group",
      "aria-label": tr("Steps where similarity changed the choice"),
    });
    this.tableBody = el("div", {});
    const opened = () => {
      if (this.more.open && this.#run)
        this.tableBody.replaceChildren(createCandidateTable(this.#run));
    };
    this.more = el(
      "details",
      { class: "cs-more", ontoggle: opened },
      el("summary", {}, tr("Table of every candidate")),
      this.tableBody,
    );
    const { line, bars, note, total, chips, more } = this;
    root.append(line.node, createLegend(), bars, note, total, chips, more);
  }

  /** @param {Run} run */
  update(run) {
    this.#run = run;
    for (; this.#stepCount < run.steps.length; this.#stepCount++) {
      const step = run.steps[this.#stepCount];
      if (!isContrastiveStep(step) || !step.detail.chosen) continue;
      this.chips.append(createChip(run, step, () => this.ctx.select(step.index)));
    }
    const text = totalText(run);
    if (this.total.textContent !== text) this.total.textContent = text;
    const { dataset } = this.tableBody;
    if (!this.more.open || run.status === "running" || dataset.rows === String(this.#stepCount))
      return;
    dataset.rows = String(this.#stepCount);
    this.tableBody.replaceChildren(createCandidateTable(run));
  }

  /**
   * @param {Run} run
   * @param {number} index
   */
  select(run, index) {
    const step = run.steps[index];
    const wanted = `${run.id}:${index}`;
    if (wanted === this.#drawnKey || !isContrastiveStep(step)) return;
    this.#drawnKey = wanted;
    const ids = contextIds(run, step.index);
    this.bars.replaceChildren(...createCandidateRows(run, step, ids, (k) => this.line.mark(k)));
    this.line.draw(run, step.detail, ids);
    this.note.textContent = reasonText(run, step);
  }

  clear() {
    this.#drawnKey = "";
    this.#stepCount = 0;
    this.line.clear();
    for (const box of [this.bars, this.chips, this.tableBody]) box.replaceChildren();
    this.note.textContent = "";
    this.total.textContent = "";
  }
}

/** @type {ViewSpec} */
export const contrastive = {
  title: tr("Candidates: confidence against similarity"),
  place: "drawer",
  tab: tr("Scores"),
  heading: tr("[candidate|Candidates]: [confidence] against similarity"),
  empty: tr(
    "The k candidates of every step: what each gains for its probability, what it pays for resembling an earlier token, and an arc back to that token.",
  ),
  mount: (root, ctx) => new Contrastive(root, ctx),
};
