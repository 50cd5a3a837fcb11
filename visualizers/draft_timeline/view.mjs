// View of speculative decoding round by round: drafted tokens, the target's verdicts and the cost.
import { el, table } from "../shared/dom.mjs";
import { told } from "../shared/terms.mjs";
import { piece } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { Lengths, placesOf } from "./charts.mjs";
import { costOf, showBadge } from "./report.mjs";
import { bend, roundOf } from "./round_details.mjs";
import { rowOf } from "./round_rows.mjs";
import { fixed, GLYPH, STATUS, shownOf } from "./words.mjs";

const LEGEND = {
  accepted: tr("accepted"),
  rejected: tr("rejected"),
  unverified: tr("not judged"),
  resampled: tr("[residual|resampled]"),
  bonus: tr("[bonus token|bonus]"),
  target: tr("target's choice"),
};

const sign = (kind, mark, words) =>
  el("span", {}, el("b", { class: kind }, mark), " ", told(words));

const legend = () =>
  el(
    "div",
    { class: "dp-legend dt-legend" },
    Object.entries(LEGEND).map(([kind, words]) => sign(`dt-tile k-${kind}`, GLYPH[kind], words)),
    sign("dt-key p", null, tr("[p and q|target p], as used")),
    sign("dt-key q", null, tr("[p and q|draft q]")),
    sign("dt-key u", null, "[u]"),
  );

const isDraft = (step) => step.detail?.kind === "draft";

/**
 * @param {Run} run
 * @param {Step} step
 */
function rowsOf(run, step) {
  const { tokens, final_source: source, final_token_id: id } = step.detail;
  const { ratio } = shownOf(run, step);
  const number = step.index + 1;
  const rows = tokens.map((t, i) => {
    const numbers = [t.p, t.q, ratio[i], t.u].map((x) => fixed(x));
    return [number, i + 1, piece(run, t.token_id), ...numbers, STATUS[t.status]];
  });
  return source === "ended"
    ? rows
    : [...rows, [number, "", piece(run, id), "", "", "", "", STATUS[source]]];
}

/** @param {Run} run */
function tableOf(run) {
  const rows = run.steps.filter(isDraft).flatMap((step) => rowsOf(run, step));
  return table(
    [
      tr("round"),
      tr("place"),
      tr("token"),
      tr("target p, as used"),
      tr("draft q"),
      tr("kept if u ≤"),
      "u",
      tr("status"),
    ],
    rows,
  );
}

class DraftTimeline {
  #nodes = [];
  #shown = null;
  #marked = -1;

  /** @param {Context} ctx */
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
    this.lengths = new Lengths();
    this.places = el("figure", { class: "dt-fig" });
    this.cost = el("div", { class: "dt-cost" });
    this.tableBody = el("div", {});
    const opened = () => {
      if (this.more.open && this.#shown) this.tableBody.replaceChildren(tableOf(this.#shown));
    };
    this.more = el(
      "details",
      { class: "dt-more", ontoggle: opened },
      el("summary", {}, tr("Table of every drafted token")),
      this.tableBody,
    );
    const figures = el("div", { class: "dt-figs" }, this.lengths.node, this.places);
    const above = [this.badge, legend(), this.rows, this.readout, this.round];
    root.append(...above, figures, this.cost, this.more);
    this.clear();
  }

  clear() {
    this.#nodes = [];
    this.#shown = null;
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
  #add(run, step) {
    const choose = () => this.ctx.select(step.index);
    const tell = (words) => {
      this.readout.textContent = words;
    };
    // A click on a drafted token that was judged selects
    // its round and asks why it was kept or rejected.
    const why = (question) => this.ctx.ask?.({ step: step.index, ...question });
    const row = rowOf(run, step, { choose, tell, why });
    this.#nodes.push(row);
    this.rows.append(row);
    this.lengths.add(step, shownOf(run, step), choose);
  }

  /** @param {Run} run */
  update(run, from) {
    this.#shown = run;
    const fresh = run.steps.slice(from).filter(isDraft);
    for (const step of fresh) this.#add(run, step);
    if (fresh.length) {
      const shown = shownOf(run, fresh.at(-1));
      this.lengths.scale(shown);
      this.places.replaceChildren(...placesOf(shown));
      this.cost.replaceChildren(...costOf(shown));
      if (run.follow) this.rows.scrollTop = this.rows.scrollHeight;
    }
    const ended = run.status !== "running";
    if (fresh.length || ended) showBadge(this.badge, run);
    if (this.more.open && fresh.length) this.tableBody.replaceChildren(tableOf(run));
  }

  /** @param {Run} run */
  select(run, index) {
    if (index === this.#marked || !this.#nodes[index]) return;
    this.#marked = index;
    this.#nodes.forEach((row, i) => {
      row.classList.toggle("sel", i === index);
      row.classList.toggle("later", i > index);
    });
    this.#reveal(this.#nodes[index]);
    this.round.replaceChildren(...roundOf(run, run.steps[index]));
    const arc = this.round.querySelector(".dt-arc");
    if (arc) bend(arc);
  }

  #reveal(row) {
    const { scrollTop, clientHeight } = this.rows;
    const below = row.offsetTop + row.offsetHeight > scrollTop + clientHeight;
    if (below || row.offsetTop < scrollTop) this.rows.scrollTop = row.offsetTop - clientHeight / 2;
  }
}

/** @type {ViewSpec} */
export const draftTimeline = {
  title: tr("Accepted and rejected, round by round"),
  picture: true,
  empty: tr(
    "One row a round: the drafted tokens, which of them the target kept, and the token it added.",
  ),
  mount: (root, ctx) => new DraftTimeline(root, ctx),
};
