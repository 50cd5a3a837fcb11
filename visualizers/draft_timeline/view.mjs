// View of speculative decoding round by round: drafted tokens, the target's verdicts and the cost.
import { createTable, el } from "../shared/dom.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { createPlaces, LengthChart } from "./charts.mjs";
import { createCosts, showBadge } from "./report.mjs";
import { createRoundDetails, drawArc } from "./round_details.mjs";
import { createRoundRow } from "./round_rows.mjs";
import { formatOptional, roundSummary, STATUS_GLYPHS, STATUS_TEXT } from "./words.mjs";

/** @type {Record<string, string>} */
const LEGEND = {
  accepted: tr("accepted"),
  rejected: tr("rejected"),
  unverified: tr("not judged"),
  resampled: tr("[residual|resampled]"),
  bonus: tr("[bonus token|bonus]"),
  target: tr("main model's choice"),
};

/**
 * @param {string} kind
 * @param {string | null} mark
 * @param {string} words
 */
const createSign = (kind, mark, words) =>
  el("span", {}, el("b", { class: kind }, mark), " ", renderTerms(words));

const createLegend = () =>
  el(
    "div",
    { class: "dp-legend dt-legend" },
    Object.entries(LEGEND).map(([kind, words]) =>
      createSign(`dt-tile k-${kind}`, STATUS_GLYPHS[kind], words),
    ),
    createSign("dt-legend-key p", null, tr("[p and q|p] of the main model")),
    createSign("dt-legend-key q", null, tr("[p and q|q] of the draft model")),
    createSign("dt-legend-key u", null, "[u]"),
  );

/** @param {Step} step */
const isDraftStep = (step) => step.detail?.kind === "draft";

/**
 * @param {Run} run
 * @param {Step} step
 */
function tableRows(run, step) {
  /** @type {DraftDetail} */
  const { tokens, final_source: source, final_token_id: id } = step.detail;
  const { ratio } = roundSummary(run, step);
  const number = step.index + 1;
  const rows = tokens.map((t, i) => {
    const numbers = [t.p, t.q, ratio[i], t.u].map((x) => formatOptional(x));
    return [number, i + 1, tokenLabel(run, t.token_id), ...numbers, STATUS_TEXT[t.status]];
  });
  return source === "ended"
    ? rows
    : [...rows, [number, "", tokenLabel(run, id), "", "", "", "", STATUS_TEXT[source]]];
}

/** @param {Run} run */
function createDraftTable(run) {
  const rows = run.steps.filter(isDraftStep).flatMap((step) => tableRows(run, step));
  return createTable(
    [
      tr("round"),
      tr("place"),
      tr("token"),
      tr("p of the main model"),
      tr("q of the draft model"),
      tr("kept if u ≤"),
      "u",
      tr("status"),
    ],
    rows,
  );
}

class DraftTimeline {
  /** @type {HTMLElement[]} */
  #nodes = [];
  /** @type {Run | null} */
  #run = null;
  #marked = -1;

  /**
   * @param {HTMLElement} root
   * @param {Context} ctx
   */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.badge = el("div", { class: "dt-badge", role: "status" });
    this.readout = el("p", {
      class: "dp-note dt-readout",
      "aria-live": "polite",
      "data-empty": tr("Point at or tab to a tile to see its p, q and u."),
    });
    this.rows = el("div", { class: "dt-rows", role: "list", "aria-label": tr("Rounds") });
    this.round = el("div", { class: "dt-round" });
    this.lengths = new LengthChart();
    this.places = el("figure", { class: "dt-fig" });
    this.cost = el("div", { class: "dt-cost" });
    this.tableBody = el("div", {});
    const opened = () => {
      if (this.more.open && this.#run) this.tableBody.replaceChildren(createDraftTable(this.#run));
    };
    this.more = el(
      "details",
      { class: "dt-more", ontoggle: opened },
      el("summary", {}, tr("Table of every drafted token")),
      this.tableBody,
    );
    const figures = el("div", { class: "dt-figs" }, this.lengths.node, this.places);
    const above = [this.badge, createLegend(), this.rows, this.readout, this.round];
    root.append(...above, figures, this.cost, this.more);
    this.clear();
  }

  clear() {
    this.#nodes = [];
    this.#run = null;
    this.#marked = -1;
    this.lengths.clear();
    const { rows, badge, round, places, cost, tableBody } = this;
    for (const box of [rows, badge, round, places, cost, tableBody]) box.replaceChildren();
    this.readout.textContent = "";
    badge.className = "dt-badge";
  }

  /**
   * @param {Run} run
   * @param {Step} step
   */
  #addRound(run, step) {
    const choose = () => this.ctx.select(step.index);
    /** @param {string} words */
    const tell = (words) => {
      this.readout.textContent = words;
    };
    /**
     * A click on a drafted token that was judged selects
     * its round and asks why it was kept or rejected.
     * @param {Asked} question
     */
    const why = (question) => this.ctx.ask?.({ step: step.index, ...question });
    const row = createRoundRow(run, step, { choose, tell, why });
    this.#nodes.push(row);
    this.rows.append(row);
    this.lengths.add(step, roundSummary(run, step), choose);
  }

  /**
   * @param {Run} run
   * @param {number} from
   */
  update(run, from) {
    this.#run = run;
    const fresh = run.steps.slice(from).filter(isDraftStep);
    for (const step of fresh) this.#addRound(run, step);
    const newest = fresh.at(-1);
    if (newest) {
      const shown = roundSummary(run, newest);
      this.lengths.scale(shown);
      this.places.replaceChildren(...createPlaces(shown));
      this.cost.replaceChildren(...createCosts(shown, Boolean(run.config.draft_tree)));
      if (run.follow) this.rows.scrollTop = this.rows.scrollHeight;
    }
    const ended = run.status !== "running";
    if (fresh.length || ended) showBadge(this.badge, run);
    if (this.more.open && fresh.length) this.tableBody.replaceChildren(createDraftTable(run));
  }

  /**
   * @param {Run} run
   * @param {number} index
   */
  select(run, index) {
    if (index === this.#marked || !this.#nodes[index]) return;
    this.#marked = index;
    this.#nodes.forEach((row, i) => {
      row.classList.toggle("sel", i === index);
      row.classList.toggle("later", i > index);
    });
    this.#scrollToRow(this.#nodes[index]);
    this.round.replaceChildren(...createRoundDetails(run, run.steps[index]));
    const arc = this.round.querySelector(".dt-arc");
    if (arc) drawArc(arc);
  }

  /** @param {HTMLElement} row */
  #scrollToRow(row) {
    const { scrollTop, clientHeight } = this.rows;
    const below = row.offsetTop + row.offsetHeight > scrollTop + clientHeight;
    if (below || row.offsetTop < scrollTop) this.rows.scrollTop = row.offsetTop - clientHeight / 2;
  }
}

/** @type {ViewSpec} */
export const draftTimeline = {
  title: tr("Accepted and rejected, round by round"),
  place: "drawer",
  tab: tr("Passes"),
  empty: tr(
    "One row a round: the drafted tokens, which of them the main model kept, and the token it added.",
  ),
  mount: (root, ctx) => new DraftTimeline(root, ctx),
};
