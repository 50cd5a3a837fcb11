// Rows of the timeline, one for each forward pass. Only rows near the selected step are in the
// page, so that a long run needs no more elements than a short one.
import { createButton, el } from "../shared/dom.mjs";
import { formatDuration, pluralText, tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { createSegments } from "./lane.mjs";
import { passText, stepSummary } from "./words.mjs";

/** @import { ForwardRow } from "../shared/summaries.d.ts" */
/** @import { Scale } from "./lane.mjs" */

const MAX_ROWS = 160;
const MAX_TILES = 48;

/**
 * @param {Run} run
 * @param {number[]} ids
 * @param {string} kind
 */
function createTiles(run, ids, kind) {
  const shown = ids
    .slice(0, MAX_TILES)
    .map((id) => el("span", { class: `ft-tile ${kind}` }, tokenLabel(run, id)));
  const rest = ids.length - shown.length;
  const more = pluralText(rest, tr("and 1 more"), tr("and {n} more"));
  return rest ? [...shown, el("span", { class: "ft-rest" }, more)] : shown;
}

/**
 * @param {string} mark
 * @param {string} name
 * @param {...Content} children
 */
const createGroup = (mark, name, children) =>
  el(
    "span",
    { class: "ft-group" },
    el("b", { class: "ft-mark", "aria-hidden": "true" }, mark),
    el("span", { class: "ft-sr" }, name),
    children,
  );

/**
 * The result of a pass: tokens removed, and in the last pass of a step the tokens written.
 * @param {Run} run
 * @param {Step} step
 * @param {ForwardRow} row
 * @param {boolean} last
 */
function createOutcome(run, step, row, last) {
  const { declared } = step.detail;
  const nothing = last && !step.emit.length && !row.gone.length;
  return el(
    "div",
    { class: "ft-outcome" },
    el(
      "div",
      { class: "ft-changes" },
      row.gone.length
        ? createGroup("↶", tr("taken back: "), createTiles(run, row.gone, "gone"))
        : null,
      last && step.emit.length
        ? createGroup("✎", tr("written: "), createTiles(run, step.emit, "new"))
        : null,
      nothing ? el("span", { class: "ft-rest" }, tr("nothing written")) : null,
    ),
    last && declared ? createStreamedCount(declared) : null,
  );
}

/** @param {number} declared */
const createStreamedCount = (declared) =>
  el(
    "span",
    {
      class: "ft-streamed",
      title: pluralText(
        declared,
        tr("1 token was handed to the streamer"),
        tr("{n} tokens were handed to the streamer"),
      ),
    },
    "⇥ ",
    declared,
    el("span", { class: "ft-sr" }, tr(" handed to the streamer")),
  );

/**
 * @param {ForwardPass | null} pass
 * @param {string} said
 */
function createReadCell(pass, said) {
  if (!pass) return el("span", { class: "ft-read" }, tr("no pass"));
  const { rows, read, cached, aside } = pass;
  const many = rows > 1 ? el("span", { class: "ft-times" }, `×${rows}`) : null;
  return el(
    "span",
    { class: "ft-read", title: said },
    aside ? el("b", { class: "ft-other-text", "aria-hidden": "true" }, "≠ ") : null,
    el(
      "span",
      { "aria-hidden": "true" },
      tr("read "),
      el("b", {}, read || tr("no ids")),
      " ",
      many,
    ),
    read
      ? el("span", { class: "ft-cached", "aria-hidden": "true" }, tr("stored {n}", { n: cached }))
      : null,
    el("span", { class: "ft-sr" }, said),
  );
}

/**
 * The row of a pass, and a function that draws its bar to a scale.
 * @param {Run} run
 * @param {Step} step
 * @param {number} place of the pass in its step
 * @param {() => void} choose
 */
function createPassRow(run, step, place, choose) {
  const { rows } = stepSummary(run, step);
  const [row, pass] = [rows[place], step.detail.passes[place]];
  const last = place === rows.length - 1;
  const lane = el("div", { class: "ft-lane", "aria-hidden": "true" });
  const said = pass ? passText(pass) : tr("no forward pass");
  const values = { step: step.index + 1, said };
  const no = el(
    "button",
    {
      type: "button",
      class: "ft-number",
      tabindex: -1,
      "aria-label":
        row.number === null
          ? tr("step {step}: {said}", values)
          : tr("Pass {pass}, step {step}: {said}", { ...values, pass: row.number }),
    },
    row.number ?? "–",
  );
  const node = el(
    "div",
    {
      class: `ft-row${last ? " last" : ""}${pass?.aside ? " aside" : ""}`,
      role: "listitem",
      onclick: choose,
    },
    no,
    lane,
    createReadCell(pass, said),
    createOutcome(run, step, row, last),
    el("span", { class: "ft-time" }, row.took_s === null ? "" : formatDuration(row.took_s)),
  );
  /** @param {Scale} scale */
  const draw = (scale) => pass && lane.replaceChildren(...createSegments(pass, row, scale));
  return { node, no, draw, step: step.index };
}

/** The list of rows; a window of them is in the page. */
export class PassRows {
  /** @type {[Step, number][]} step, and index of the pass in it */
  #entries = [];
  /** @type {Map<number, number>} step index -> its first row */
  #first = new Map();
  #from = 0;
  /** @type {ReturnType<typeof createPassRow>[]} */
  #drawn = [];
  /** @type {Scale | null} */
  #scale = null;

  /** @param {(step: number) => void} choose */
  constructor(choose) {
    this.choose = choose;
    /** @param {() => number} from */
    const more = (from) =>
      createButton("", () => this.#entries[from()] && choose(this.#entries[from()][0].index));
    this.before = more(() => this.#from - 1);
    this.after = more(() => this.#from + this.#drawn.length);
    this.list = el("div", { role: "list", "aria-label": tr("Forward passes") });
    this.clear();
  }

  clear() {
    this.#entries = [];
    this.#first.clear();
    this.#scale = null;
    this.#showRows([], 0);
  }

  /**
   * @param {Run} run
   * @param {Step} step
   */
  add(run, step) {
    this.#first.set(step.index, this.#entries.length);
    for (const place of stepSummary(run, step).rows.keys()) this.#entries.push([step, place]);
  }

  /**
   * Draw the rows around a step and mark the rows of that step.
   * @param {Run} run
   * @param {number} index
   * @param {Scale} scale
   * @returns {HTMLElement | undefined} the last row of the step
   */
  show(run, index, scale) {
    const at = this.#first.get(index) ?? this.#entries.length - 1;
    const end = this.#from + this.#drawn.length;
    const fits = this.#entries.length - this.#from <= MAX_ROWS;
    if (at >= this.#from && (at < end || fits)) this.#appendRows(run, scale);
    else {
      const from = Math.max(0, Math.min(at - MAX_ROWS / 2, this.#entries.length - MAX_ROWS));
      this.#drawRange(run, from, Math.min(this.#entries.length, from + MAX_ROWS));
      this.#applyScale(scale);
    }
    if (scale.room !== this.#scale?.room || scale.start !== this.#scale.start)
      this.#applyScale(scale);
    this.#updateEdges();
    return this.#markStep(index);
  }

  /** The button of the selected step. */
  get chosen() {
    return this.#drawn.find(({ no }) => no.tabIndex === 0)?.no;
  }

  /**
   * @param {Run} run
   * @param {[Step, number]} place
   */
  #createRow(run, [step, place]) {
    return createPassRow(run, step, place, () => this.choose(step.index));
  }

  /**
   * @param {Run} run
   * @param {number} from
   * @param {number} to
   */
  #drawRange(run, from, to) {
    const entries = this.#entries.slice(from, to);
    this.#showRows(
      entries.map((one) => this.#createRow(run, one)),
      from,
    );
  }

  /**
   * @param {ReturnType<typeof createPassRow>[]} rows
   * @param {number} from index of the first
   */
  #showRows(rows, from) {
    this.#from = from;
    this.#drawn = rows;
    this.list.replaceChildren(...this.#drawn.map(({ node }) => node));
    this.#updateEdges();
  }

  /**
   * @param {Run} run
   * @param {Scale} scale
   */
  #appendRows(run, scale) {
    const from = this.#from + this.#drawn.length;
    const fresh = this.#entries
      .slice(from, this.#from + MAX_ROWS)
      .map((one) => this.#createRow(run, one));
    this.#scale ??= scale;
    for (const row of fresh) row.draw(this.#scale ?? scale);
    this.#drawn.push(...fresh);
    this.list.append(...fresh.map(({ node }) => node));
  }

  /** @param {Scale} scale */
  #applyScale(scale) {
    this.#scale = scale;
    for (const row of this.#drawn) row.draw(scale);
  }

  #updateEdges() {
    const beyond = this.#entries.length - this.#from - this.#drawn.length;
    /**
     * @param {HTMLElement} node
     * @param {number} number
     * @param {string} one
     * @param {string} many
     */
    const say = (node, number, one, many) => {
      node.hidden = !number;
      node.textContent = pluralText(number, one, many);
    };
    say(this.before, this.#from, tr("1 ↑ earlier pass"), tr("{n} ↑ earlier passes"));
    say(this.after, beyond, tr("1 ↓ later pass"), tr("{n} ↓ later passes"));
  }

  /** @param {number} index */
  #markStep(index) {
    let found;
    for (const { node, no, step } of this.#drawn) {
      node.classList.toggle("sel", step === index);
      node.classList.toggle("later", step > index);
      no.tabIndex = -1;
      if (step === index) found = { node, no };
    }
    if (found) found.no.tabIndex = 0;
    return found?.node;
  }
}
