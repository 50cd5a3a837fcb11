// View of a custom method's run, one row per forward pass: tokens read, removed and written.
import { el, fact, table } from "../shared/dom.mjs";
import { told } from "../shared/terms.mjs";
import { fixed, textOfIds } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { axisOf, scaleOf } from "./lane.mjs";
import { Rows } from "./rows.mjs";
import { OUTSIDE, shownOf, stepWords, summaryOf, unseenOf } from "./words.mjs";

const MOVES = { ArrowUp: -1, ArrowDown: 1 };

const key = (kind, ...words) =>
  el(
    "span",
    {},
    el("span", { class: "ft-key" }, el("i", { class: kind })),
    " ",
    words.flatMap((word) => (typeof word === "string" ? told(word) : [word])),
  );

const sign = (kind, mark, words) =>
  el("span", {}, el("b", { class: kind }, mark), " ", told(words));

/**
 * Entries of the legend, each with a test whether the run so far needs it.
 * @returns {[HTMLElement, (figures: any) => any][]}
 */
const signs = () => [
  [key("held", tr("held in the [cache]")), ({ held }) => held],
  [key("read", tr("read in this pass")), ({ passes }) => passes],
  [sign("ft-times", "×2", tr("in two rows at once")), ({ rows }) => rows > 1],
  [sign("ft-aside", "≠", tr("read another text")), ({ aside }) => aside],
  [key("end", tr("end of the prompt")), ({ passes }) => passes],
  [
    key("gone", el("b", { class: "ft-mark back" }, "↶ "), tr("taken back after it")),
    ({ back, left }) => back || left,
  ],
  [sign("ft-mark", "✎", tr("written")), () => true],
  [sign("ft-declared", "⇥", tr("handed to the [streamer]")), ({ declared }) => declared],
];

const headings = (axis) =>
  el(
    "div",
    { class: "ft-row ft-heads" },
    el("span", {}, told(tr("[forward pass|pass]"))),
    axis,
    el("span", {}, tr("read, held")),
    el("span", {}, tr("what came of it")),
    el("span", { class: "ft-time", title: tr("Since the pass before had ended") }, tr("took")),
  );

/** @param {Run} run */
const hasEnded = (run) => !["running", "paused"].includes(run.status);

const isForward = (step) => step.detail?.kind === "forward";

/**
 * @param {Run} run
 * @param {Step} step
 */
function linesOf(run, step) {
  const { rows } = shownOf(run, step);
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
      textOfIds(run, row.gone),
      last ? textOfIds(run, step.emit) : "",
      last ? step.detail.declared : "",
      pass?.elapsed_s ? fixed(pass.elapsed_s, 3) : "",
    ];
  });
}

const COLUMNS = [
  tr("step"),
  tr("pass"),
  tr("text read"),
  tr("rows"),
  tr("tokens read"),
  tr("held"),
  tr("tokens of the text"),
  tr("taken back"),
  tr("written"),
  tr("to the streamer"),
  tr("ended at, s"),
];

/** @param {Run} run */
const tableOf = (run) =>
  table(
    COLUMNS,
    run.steps.filter(isForward).flatMap((step) => linesOf(run, step)),
  );

function costsOf(figures) {
  const { tokens_per_pass: each, read, back, left, declared } = figures;
  return [
    fact(tr("tokens per pass"), each === null ? "–" : fixed(each, 2)),
    fact(tr("tokens read, all rows"), read),
    fact(tr("taken back"), back),
    left ? fact(tr("not returned"), left) : null,
    fact(tr("handed to the streamer"), declared),
  ].filter(Boolean);
}

class ForwardTimeline {
  /** @type {Run | null} */
  #run = null;
  /** The marked step, and the step that was scrolled to. */
  #marked = -1;
  #reached = -1;
  /** Last step and status that the sentences describe. */
  #said = "";

  /** @param {Context} ctx */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.summary = el("p", { class: "ft-sum" });
    this.unseen = el("p", { class: "dp-note ft-unseen" });
    this.rows = new Rows((index) => ctx.select(index));
    this.axis = el("div", { class: "ft-axis", "aria-hidden": "true" });
    this.box = el(
      "div",
      {
        class: "ft-box",
        role: "group",
        "aria-label": tr("Forward passes; arrow keys move from step to step"),
        onkeydown: (event) => this.#press(event),
      },
      headings(this.axis),
      this.rows.before,
      this.rows.list,
      this.rows.after,
    );
    this.step = el("p", { class: "dp-note ft-step" });
    this.costs = el("div", { class: "dp-costs" });
    this.tableBody = el("div", {});
    this.more = el(
      "details",
      { class: "ft-more", ontoggle: () => this.#list() },
      el("summary", {}, tr("Table of every forward pass")),
      this.tableBody,
    );
    this.signs = signs();
    const legend = el(
      "div",
      { class: "dp-legend ft-legend" },
      this.signs.map(([node]) => node),
    );
    const above = [this.summary, el("p", { class: "dp-note" }, OUTSIDE), this.unseen, legend];
    root.append(...above, this.box, this.step, this.costs, this.more);
  }

  clear() {
    this.#run = null;
    this.#marked = this.#reached = -1;
    this.#said = "";
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

  #list() {
    if (this.more.open && this.#run) this.tableBody.replaceChildren(tableOf(this.#run));
  }

  #press(event) {
    const move = MOVES[event.key];
    if (event.key === "Home") this.ctx.select(0);
    else if (event.key === "End") this.ctx.select(1e9);
    else if (move) this.ctx.select(this.#run.selected + move);
    else return;
    event.preventDefault();
    requestAnimationFrame(() => requestAnimationFrame(() => this.rows.chosen?.focus()));
  }

  /** @param {Run} run */
  update(run, from) {
    this.#run = run;
    const fresh = run.steps.slice(from).filter(isForward);
    for (const step of fresh) this.rows.add(run, step);
    const last = run.steps.findLast(isForward);
    const said = `${last?.index} ${run.status}`;
    if (!last || said === this.#said) return;
    this.#said = said;
    const ended = hasEnded(run);
    const { figures } = shownOf(run, last);
    this.summary.replaceChildren(...told(summaryOf(figures, ended)));
    const unseen = unseenOf(figures, ended);
    this.unseen.replaceChildren(...told(unseen));
    this.unseen.hidden = !unseen;
    for (const [node, has] of this.signs) node.hidden = !has(figures);
    this.costs.replaceChildren(...costsOf(figures));
    this.#list();
    this.#marked = -1;
  }

  /** @param {Run} run */
  select(run, index) {
    const last = run.steps.findLast(isForward);
    if (index === this.#marked || !last) return;
    this.#marked = index;
    const shown = shownOf(run, last);
    const scale = scaleOf(shown, hasEnded(run));
    this.axis.replaceChildren(
      ...axisOf(scale, run.model.is_encoder_decoder ? tr("start") : tr("prompt"))
        .flat()
        .filter(Boolean),
    );
    const row = this.rows.show(run, index, scale);
    // New passes do not scroll the list again, so that a visitor can look at earlier rows.
    if (row && index !== this.#reached) this.#reveal(row);
    this.#reached = index;
    const step = run.steps[index];
    this.step.replaceChildren();
    if (isForward(step))
      this.step.append(
        el("b", {}, ...told(tr("[step|Step] {n}. ", { n: index + 1 }))),
        stepWords(run, step),
      );
  }

  #reveal(row) {
    const { scrollTop, clientHeight } = this.box;
    const below = row.offsetTop + row.offsetHeight > scrollTop + clientHeight;
    const above = row.offsetTop < scrollTop + this.axis.parentElement.offsetHeight;
    if (below || above) this.box.scrollTop = row.offsetTop - clientHeight / 2;
  }
}

/** @type {ViewSpec} */
export const forwardTimeline = {
  title: tr("Forward passes, one by one"),
  picture: true,
  empty: tr(
    "One row for each forward pass of the model: what it read, what was taken back after it, and what was written.",
  ),
  mount: (root, ctx) => new ForwardTimeline(root, ctx),
};
