// View of the choice at a step: the draw as a strip, and the candidates as bars.
import { el } from "../shared/dom.mjs";
import { findSelectedNode } from "../shared/record.mjs";
import { StepView } from "../shared/step_view.mjs";
import { tr } from "../shared/tr.mjs";
import { Bars, usedShare } from "./bars.mjs";
import { createStepContent } from "./rows.mjs";
import { Strip } from "./strip.mjs";

/** @import { CandidateRow } from "./bars.mjs" */
/** @import { StepContent } from "./rows.mjs" */

const [MANY_ROWS, FEW_ROWS] = [7, 5];
const NARROW = 560;

/**
 * Put a removed row where the model's own probability places it.
 * @param {CandidateRow[]} rows
 */
function placeRemoved(rows) {
  const placed = rows.filter(({ removed }) => !removed);
  for (const row of rows.filter(({ removed }) => removed)) {
    const next = placed.findIndex(({ raw }) => (raw ?? 0) < (row.raw ?? 0));
    placed.splice(next < 0 ? placed.length : next, 0, row);
  }
  return placed;
}

/**
 * Show the exact tokens where two differ only in the space before them.
 * @param {CandidateRow[]} rows
 */
const tellApart = (rows) =>
  rows.map((row) =>
    rows.some((other) => other !== row && other.name === row.name)
      ? { ...row, name: row.title }
      : row,
  );

/**
 * Add the rows that are not shown to the row of all other tokens.
 * @drawing
 * @param {CandidateRow} rest
 * @param {CandidateRow[]} hidden
 * @returns {CandidateRow}
 */
const addHidden = (rest, hidden) => ({
  ...rest,
  // A row of what a server did not report has that name only while nothing else is in it.
  name: rest.reported && hidden.length ? tr("all others") : rest.name,
  raw: rest.raw === null ? null : hidden.reduce((sum, { raw }) => sum + (raw ?? 0), rest.raw),
  processed: hidden.reduce((sum, row) => sum + usedShare(row), rest.processed),
});

/**
 * The rows that are shown: the first ones, the chosen one, and all others.
 * @param {CandidateRow[]} rows
 * @param {number} limit
 */
function pickRows(rows, limit) {
  const own = tellApart(placeRemoved(rows.filter(({ rest }) => !rest)));
  const rest = rows.find((row) => row.rest);
  const late = own.findIndex(({ on }) => on) >= limit;
  const shown = late
    ? [...own.slice(0, limit - 1), ...own.filter(({ on }) => on)]
    : own.slice(0, limit);
  const hidden = own.filter((row) => !shown.includes(row));
  return { shown, hidden, rest: rest ? addHidden(rest, hidden) : null };
}

class Choice {
  #ctx;
  #open = false;
  #width = 0;
  #strip = new Strip();
  #bars = new Bars();
  #note = el("p", { class: "dp-note" });

  /**
   * @param {HTMLElement} root
   * @param {Context} ctx
   */
  constructor(root, ctx) {
    this.#ctx = ctx;
    this.picture = el("div", { class: "cb-picture" }, this.#strip.node, this.#bars.node);
    root.append(this.picture, this.#note);
    /** @type {() => void} */
    this.again = () => {};
    new ResizeObserver(([entry]) => {
      const { width } = entry.contentRect;
      if (width === this.#width) return;
      this.#width = width;
      this.again();
    }).observe(this.picture);
  }

  /**
   * @param {Run} run
   * @param {Step} step
   */
  draw(run, step) {
    this.again = () => {
      // A replay may have taken the step back.
      if (run.steps[step.index] === step) this.draw(run, step);
    };
    const content = createStepContent(run, step, this.#ctx);
    this.#drawRows(content);
    this.#note.replaceChildren(...(content.words ?? []));
    this.#note.hidden = !this.#note.textContent;
  }

  /** @param {StepContent} content */
  #drawRows({ rows, drawn, needle = null }) {
    const few = this.#width > 0 && this.#width < NARROW;
    const limit = this.#open ? rows.length : few ? FEW_ROWS : MANY_ROWS;
    const { shown, hidden, rest } = pickRows(rows, limit);
    const fold = this.#foldOf(hidden.length);
    const all = [...shown, ...(rest ? [{ ...rest, fold }] : [])];
    this.#bars.draw(all, Math.max(0, ...all.flatMap((row) => [row.raw ?? 0, usedShare(row)])) || 1);
    this.#strip.node.hidden = !drawn;
    if (!drawn) return;
    const slices = shown.map((row) => ({ name: row.name, share: usedShare(row), on: row.on }));
    this.#strip.draw({ slices, rest: rest?.processed ?? 0, needle }, this.#width);
  }

  /** @param {number} count of rows that are not shown */
  #foldOf(count) {
    if (!count && !this.#open) return null;
    const toggle = () => {
      this.#open = !this.#open;
      this.again();
    };
    return { open: this.#open, count, toggle };
  }
}

/** @type {ViewSpec} */
export const candidates = {
  title: tr("Candidates of this step"),
  heading: false,
  fallback: true,
  tab: tr("Candidates"),
  empty: tr("The tokens the model considered: the model's probability, and the one that was used."),
  mount(root, ctx) {
    const choice = new Choice(root, ctx);
    /**
     * The scores of the finished text arrive at the end of the run.
     * @param {Run} run
     * @param {Step} step
     */
    const scores = (run, step) => (step.candidates.length ? "" : run.emitted?.length);
    return new StepView(
      (run, step) => choice.draw(run, step),
      (run, step) => [findSelectedNode(run, step)?.node.node_id, scores(run, step), ctx.preview],
    );
  },
};
