// View of contrastive search: confidence and degeneration penalty of every candidate.
import { el, table } from "../shared/dom.mjs";
import { told } from "../shared/terms.mjs";
import { fixed, percent, piece } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { rowsOf } from "./bars.mjs";
import { Line } from "./line.mjs";
import { idsBefore, isContrastive, reasonOf, START, shownOf, totalOf } from "./words.mjs";

const COLUMNS = [
  tr("step"),
  tr("token"),
  tr("probability as used"),
  tr("confidence"),
  tr("max cosine"),
  tr("penalty"),
  tr("score"),
  tr("similar to"),
  tr("token number"),
];

const key = (kind, words) => el("span", {}, el("i", { class: `cs-key ${kind}` }), told(words));

const legend = () =>
  el(
    "div",
    { class: "dp-legend cs-legend" },
    key("pen", tr(" [degeneration penalty|penalty] α · [cosine], counted against")),
    key("conf", tr(" [confidence] (1 − α) · p, counted for")),
    key("mark", tr(" score: the sum; highest wins")),
  );

/**
 * @param {Run} run
 * @param {Step} step
 */
function rowOf(run, step, option, k) {
  const { confidence, max_cosine, degeneration_penalty, score } = option;
  const like = shownOf(run, step).like[k];
  return [
    step.index + 1,
    (k === step.detail.chosen ? "▸ " : "") + piece(run, option.token_id),
    percent(option.probability),
    ...[confidence, max_cosine, degeneration_penalty, score].map((x) => fixed(x)),
    like === null ? START : piece(run, like),
    option.position < 0 ? "–" : option.position + 1,
  ];
}

/** @param {Run} run */
function tableOf(run) {
  const rows = run.steps
    .filter(isContrastive)
    .flatMap((step) => step.detail.options.map((option, k) => rowOf(run, step, option, k)));
  return table(COLUMNS, rows);
}

/**
 * Button for a step where similarity changed the choice:
 * the most probable token and the chosen one.
 * @param {Run} run
 * @param {Step} step
 */
function chip(run, step, choose) {
  const { options, chosen } = step.detail;
  const [was, is] = [options[0], options[chosen]].map((o) => piece(run, o.token_id));
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
  #run = null;
  #last = "";
  #seen = 0;

  /** @param {Context} ctx */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.line = new Line();
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
      if (this.more.open && this.#run) this.tableBody.replaceChildren(tableOf(this.#run));
    };
    this.more = el(
      "details",
      { class: "cs-more", ontoggle: opened },
      el("summary", {}, tr("Table of every candidate")),
      this.tableBody,
    );
    const { line, bars, note, total, chips, more } = this;
    root.append(line.node, legend(), bars, note, total, chips, more);
  }

  /** @param {Run} run */
  update(run) {
    this.#run = run;
    for (; this.#seen < run.steps.length; this.#seen++) {
      const step = run.steps[this.#seen];
      if (!isContrastive(step) || !step.detail.chosen) continue;
      this.chips.append(chip(run, step, () => this.ctx.select(step.index)));
    }
    const text = totalOf(run);
    if (this.total.textContent !== text) this.total.textContent = text;
    const { dataset } = this.tableBody;
    if (!this.more.open || run.status === "running" || dataset.rows === String(this.#seen)) return;
    dataset.rows = String(this.#seen);
    this.tableBody.replaceChildren(tableOf(run));
  }

  /** @param {Run} run */
  select(run, index) {
    const step = run.steps[index];
    const wanted = `${run.id}:${index}`;
    if (wanted === this.#last || !isContrastive(step)) return;
    this.#last = wanted;
    const ids = idsBefore(run, step.index);
    this.bars.replaceChildren(...rowsOf(run, step, ids, (k) => this.line.mark(k)));
    this.line.draw(run, step.detail, ids);
    this.note.textContent = reasonOf(run, step);
  }

  clear() {
    this.#last = "";
    this.#seen = 0;
    this.line.clear();
    for (const box of [this.bars, this.chips, this.tableBody]) box.replaceChildren();
    this.note.textContent = "";
    this.total.textContent = "";
  }
}

/** @type {ViewSpec} */
export const contrastive = {
  title: tr("Candidates: confidence against similarity"),
  picture: true,
  heading: tr("[candidate|Candidates]: [confidence] against similarity"),
  empty: tr(
    "The k candidates of every step: what each gains for its probability, what it pays for resembling an earlier token, and an arc back to that token.",
  ),
  mount: (root, ctx) => new Contrastive(root, ctx),
};
