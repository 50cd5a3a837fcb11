// Rows of the timeline, one for each forward pass. Only rows near the selected step are in the
// page, so that a long run needs no more elements than a short one.
import { button, el } from "../shared/dom.mjs";
import { counted, piece } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { segmentsOf } from "./lane.mjs";
import { passWords, seconds, shownOf } from "./words.mjs";

const WINDOW = 160;
const MOST = 48;

/** @param {Run} run */
function tiles(run, ids, kind) {
  const shown = ids
    .slice(0, MOST)
    .map((id) => el("span", { class: `ft-tile ${kind}` }, piece(run, id)));
  const rest = ids.length - shown.length;
  const more = counted(rest, tr("and 1 more"), tr("and {n} more"));
  return rest ? [...shown, el("span", { class: "ft-rest" }, more)] : shown;
}

const group = (mark, name, children) =>
  el(
    "span",
    { class: "ft-group" },
    el("b", { class: "ft-mark", "aria-hidden": "true" }, mark),
    el("span", { class: "ft-said" }, name),
    children,
  );

/**
 * The result of a pass: tokens removed, and in the last pass of a step the tokens written.
 * @param {Run} run
 * @param {Step} step
 */
function outcome(run, step, row, last) {
  const { declared } = step.detail;
  const nothing = last && !step.emit.length && !row.gone.length;
  return el(
    "div",
    { class: "ft-then" },
    el(
      "div",
      { class: "ft-what" },
      row.gone.length ? group("↶", tr("taken back: "), tiles(run, row.gone, "gone")) : null,
      last && step.emit.length ? group("✎", tr("written: "), tiles(run, step.emit, "new")) : null,
      nothing ? el("span", { class: "ft-rest" }, tr("nothing written")) : null,
    ),
    last && declared ? handedOver(declared) : null,
  );
}

const handedOver = (declared) =>
  el(
    "span",
    {
      class: "ft-declared",
      title: counted(
        declared,
        tr("1 token was handed to the streamer"),
        tr("{n} tokens were handed to the streamer"),
      ),
    },
    "⇥ ",
    declared,
    el("span", { class: "ft-said" }, tr(" handed to the streamer")),
  );

function readOf(pass, said) {
  if (!pass) return el("span", { class: "ft-read" }, tr("no pass"));
  const { rows, read, cached, aside } = pass;
  const many = rows > 1 ? el("span", { class: "ft-times" }, `×${rows}`) : null;
  return el(
    "span",
    { class: "ft-read", title: said },
    aside ? el("b", { class: "ft-aside", "aria-hidden": "true" }, "≠ ") : null,
    el(
      "span",
      { "aria-hidden": "true" },
      tr("read "),
      el("b", {}, read || tr("no ids")),
      " ",
      many,
    ),
    read
      ? el("span", { class: "ft-held", "aria-hidden": "true" }, tr("held {n}", { n: cached }))
      : null,
    el("span", { class: "ft-said" }, said),
  );
}

/**
 * The row of a pass, and a function that draws its bar to a scale.
 * @param {Run} run
 * @param {Step} step
 * @param {number} place of the pass in its step
 */
function rowOf(run, step, place, choose) {
  const { rows } = shownOf(run, step);
  const [row, pass] = [rows[place], step.detail.passes[place]];
  const last = place === rows.length - 1;
  const lane = el("div", { class: "ft-lane", "aria-hidden": "true" });
  const said = pass ? passWords(pass) : tr("no forward pass");
  const values = { pass: row.number, step: step.index + 1, said };
  const no = el(
    "button",
    {
      type: "button",
      class: "ft-no",
      tabindex: -1,
      "aria-label":
        row.number === null
          ? tr("step {step}: {said}", values)
          : tr("Pass {pass}, step {step}: {said}", values),
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
    readOf(pass, said),
    outcome(run, step, row, last),
    el("span", { class: "ft-time" }, row.took_s === null ? "" : seconds(row.took_s)),
  );
  const draw = (scale) => pass && lane.replaceChildren(...segmentsOf(pass, row, scale));
  return { node, no, draw, step: step.index };
}

/** The list of rows; a window of them is in the page. */
export class Rows {
  /** @type {[Step, number][]} step, and index of the pass in it */
  #all = [];
  /** @type {Map<number, number>} step index -> its first row */
  #first = new Map();
  #from = 0;
  #drawn = [];
  #scale = null;

  /** @param {(step: number) => void} choose */
  constructor(choose) {
    this.choose = choose;
    const more = (from) =>
      button("", () => this.#all[from()] && choose(this.#all[from()][0].index));
    this.before = more(() => this.#from - 1);
    this.after = more(() => this.#from + this.#drawn.length);
    this.list = el("div", { role: "list", "aria-label": tr("Forward passes") });
    this.clear();
  }

  clear() {
    this.#all = [];
    this.#first.clear();
    this.#scale = null;
    this.#draw(null, 0, 0);
  }

  /**
   * @param {Run} run
   * @param {Step} step
   */
  add(run, step) {
    this.#first.set(step.index, this.#all.length);
    for (const place of shownOf(run, step).rows.keys()) this.#all.push([step, place]);
  }

  /**
   * Draw the rows around a step and mark the rows of that step.
   * @param {Run} run
   * @param {number} index
   * @param {any} scale
   * @returns {HTMLElement | undefined} the last row of the step
   */
  show(run, index, scale) {
    const at = this.#first.get(index) ?? this.#all.length - 1;
    const end = this.#from + this.#drawn.length;
    const fits = this.#all.length - this.#from <= WINDOW;
    if (at >= this.#from && (at < end || fits)) this.#append(run, scale);
    else {
      const from = Math.max(0, Math.min(at - WINDOW / 2, this.#all.length - WINDOW));
      this.#draw(run, from, Math.min(this.#all.length, from + WINDOW));
      this.#rescale(scale);
    }
    if (scale.room !== this.#scale.room || scale.start !== this.#scale.start) this.#rescale(scale);
    this.#edges();
    return this.#mark(index);
  }

  /** The button of the selected step. */
  get chosen() {
    return this.#drawn.find(({ no }) => no.tabIndex === 0)?.no;
  }

  #make(run, [step, place]) {
    return rowOf(run, step, place, () => this.choose(step.index));
  }

  #draw(run, from, to) {
    this.#from = from;
    this.#drawn = this.#all.slice(from, to).map((one) => this.#make(run, one));
    this.list.replaceChildren(...this.#drawn.map(({ node }) => node));
    this.#edges();
  }

  #append(run, scale) {
    const from = this.#from + this.#drawn.length;
    const fresh = this.#all.slice(from, this.#from + WINDOW).map((one) => this.#make(run, one));
    this.#scale ??= scale;
    for (const row of fresh) row.draw(this.#scale);
    this.#drawn.push(...fresh);
    this.list.append(...fresh.map(({ node }) => node));
  }

  #rescale(scale) {
    this.#scale = scale;
    for (const row of this.#drawn) row.draw(scale);
  }

  #edges() {
    const beyond = this.#all.length - this.#from - this.#drawn.length;
    const say = (node, number, one, many) => {
      node.hidden = !number;
      node.textContent = counted(number, one, many);
    };
    say(this.before, this.#from, tr("1 ↑ earlier pass"), tr("{n} ↑ earlier passes"));
    say(this.after, beyond, tr("1 ↓ later pass"), tr("{n} ↓ later passes"));
  }

  #mark(index) {
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
