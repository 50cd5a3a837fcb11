// Bars of a step's candidates: filled is the probability with the settings, a tick the model's own.
// The elements of a row stay when its numbers change, so that the bars can follow a dial.
import { el } from "../shared/dom.mjs";
import { processorTitle } from "../shared/processors.mjs";
import { formatPercent, formatWholePercent, toCssLength } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/**
 * A row of the bars: probabilities by the model and with the settings, and what a press does.
 * @typedef {object} CandidateRow
 * @property {string} name
 * @property {string} title the exact token
 * @property {number | null} raw null if it is not known
 * @property {number} processed
 * @property {string | null} removed the processor that removed it
 * @property {boolean} on whether it was chosen
 * @property {(() => void) | null} go continues from here with it
 * @property {(() => void) | null} why asks why it was chosen or not
 * @property {boolean} [reported] whether a server reported its one number
 * @property {boolean} [rest] whether it is the row of all other tokens
 * @property {Fold | null} [fold] of that row
 */

/**
 * Rows that the row of all other tokens shows or hides.
 * @typedef {{ open: boolean, count: number, toggle: () => void }} Fold
 */

/** @param {Pick<CandidateRow, "processed" | "removed">} row */
export const usedShare = ({ processed, removed }) => (removed ? 0 : processed);

/**
 * Whether a row's probability is another one than the model's.
 * @param {CandidateRow} row
 */
const isReshaped = (row) =>
  row.raw !== null && formatWholePercent(row.raw) !== formatWholePercent(usedShare(row));

/** @param {CandidateRow} row */
const whyText = ({ name, on }) =>
  on ? tr("Why {name}?", { name }) : tr("Why not {name}?", { name });

/** @param {Fold} fold */
const foldText = ({ open, count }) =>
  open ? tr("all others: show fewer") : tr("all others: show {n} more", { n: count });

/** @param {CandidateRow} row */
const pressText = (row) =>
  row.fold
    ? foldText(row.fold)
    : row.go
      ? tr("Continue from here with {name}", { name: row.name })
      : whyText(row);

/** @param {CandidateRow | null} row */
const pressOf = (row) => row?.fold?.toggle ?? row?.go ?? row?.why;

/** @param {CandidateRow} row */
function numbersText(row) {
  const used = formatPercent(usedShare(row));
  if (row.reported) return used;
  return row.raw === null
    ? tr("with your settings {used}", { used })
    : tr("model {own}, with your settings {used}", { own: formatPercent(row.raw), used });
}

/**
 * Length of a bar whose scale ends at the longest.
 * @drawing
 * @param {number} share
 * @param {number} longest
 */
const barLength = (share, longest) => toCssLength(share / longest);

/** The row of one candidate. */
export class BarRow {
  /** @type {CandidateRow | null} */
  row = null;
  #fill = el("b", {});
  #tick = el("u", {});
  #share = el("span", {});
  #exact = el("span", { class: "dp-sr" });
  #gone = el("span", { class: "cb-gone" });
  /** @type {HTMLElement} */
  #name = el("span", {});

  constructor() {
    this.number = el("span", { class: "cb-share" }, this.#share, this.#exact);
    const bar = el("span", { class: "cb-bar" }, this.#fill, this.#tick);
    bar.addEventListener("click", () => this.row?.why?.());
    this.node = el("div", { class: "cb-row" }, this.#name, bar, this.number, this.#gone);
  }

  /**
   * @param {CandidateRow} row
   * @param {number} longest share that fills a whole bar
   */
  draw(row, longest) {
    this.row = row;
    const { raw, removed, on } = row;
    this.node.className = `cb-row${on ? " on" : ""}${removed ? " gone" : ""}${row.rest ? " rest" : ""}`;
    this.#drawName(row);
    const used = usedShare(row);
    this.#fill.style.width = barLength(used, longest);
    this.#tick.hidden = !isReshaped(row);
    if (raw !== null) this.#tick.style.left = barLength(raw, longest);
    const numbers = numbersText(row);
    this.number.title = numbers;
    this.#share.textContent = formatWholePercent(used);
    this.#exact.textContent = isReshaped(row) ? ` (${numbers})` : "";
    this.#gone.textContent = removed
      ? tr("removed by {name}", { name: processorTitle(removed) })
      : "";
  }

  /** @returns {HTMLElement[]} the name, if it can be pressed */
  get buttons() {
    return this.#name.tagName === "BUTTON" ? [this.#name] : [];
  }

  /**
   * A name is a button where the run can be continued with it, or where it can be asked about.
   * @param {CandidateRow} row
   */
  #drawName(row) {
    const act = Boolean(pressOf(row));
    if (act !== (this.#name.tagName === "BUTTON")) {
      const made = act
        ? el("button", { type: "button", tabindex: -1, onclick: () => pressOf(this.row)?.() })
        : el("span", {});
      this.#name.replaceWith(made);
      this.#name = made;
    }
    this.#name.className = "cb-name";
    this.#name.textContent = row.name;
    this.#name.title = act ? pressText(row) : row.title;
    if (act) this.#name.setAttribute("aria-label", pressText(row));
    if (row.fold) this.#name.setAttribute("aria-expanded", String(row.fold.open));
    else this.#name.removeAttribute("aria-expanded");
  }
}

const createLegend = () =>
  el(
    "p",
    { class: "cb-legend" },
    el("span", {}, el("b", {}), tr("with your settings")),
    el("span", {}, el("u", {}), tr("the model's own")),
  );

/** @type {Record<string, number>} key -> how many rows it moves */
const KEY_MOVES = { ArrowUp: -1, ArrowDown: 1, Home: Number.NEGATIVE_INFINITY, End: Infinity };

/** The rows of a step's candidates, one stop of the Tab key, with a button that asks about the row in use. */
export class Bars {
  /** @type {BarRow[]} */
  #rows = [];
  /** @type {BarRow | undefined} */
  #asked;
  // A button in every row would be as many controls again.
  #why = el(
    "button",
    { type: "button", class: "cb-why", onclick: () => this.#asked?.row?.why?.() },
    "?",
  );

  #legend = createLegend();

  constructor() {
    this.node = el("div", { class: "cb-bars" }, this.#legend);
    this.node.addEventListener("focusin", ({ target }) => this.#followRow(target));
    this.node.addEventListener("keydown", (event) => this.#handleKey(event));
    this.node.addEventListener("pointerover", ({ target }) => {
      // Rows that move under a resting pointer must not take the button from a keyboard.
      if (!this.node.querySelector(":focus-visible")) this.#followRow(target);
    });
  }

  /** @param {EventTarget | null} target within the row in use */
  #followRow(target) {
    const row = target instanceof Node && this.#rows.find(({ node }) => node.contains(target));
    if (row && document.activeElement !== this.#why) this.#moveWhy(row);
  }

  /** @param {KeyboardEvent} event */
  #handleKey(event) {
    const names = this.#names();
    const at = names.indexOf(/** @type {HTMLElement} */ (event.target));
    const move = KEY_MOVES[event.key];
    if (at < 0 || move === undefined) return;
    event.preventDefault();
    const next = names[Math.max(0, Math.min(names.length - 1, at + move))];
    this.#setTabStop(next);
    next.focus();
  }

  /** The names that can be pressed. */
  #names() {
    return this.#rows.flatMap((row) => (row.node.parentNode === this.node ? row.buttons : []));
  }

  /**
   * Set the name at which the Tab key stops: the one in use, at first the first one.
   * @param {HTMLElement} [used]
   */
  #setTabStop(used) {
    const names = this.#names();
    const stop = used ?? names.find((name) => name.getAttribute("tabindex") === "0") ?? names[0];
    for (const name of names) name.setAttribute("tabindex", name === stop ? "0" : "-1");
  }

  /** @param {BarRow | undefined} row that the button asks about */
  #moveWhy(row) {
    this.#asked = row?.row?.why ? row : undefined;
    if (!this.#asked?.row) return this.#why.remove();
    const text = whyText(this.#asked.row);
    this.#why.title = text;
    this.#why.setAttribute("aria-label", text);
    if (this.#why.parentNode !== this.#asked.number) this.#asked.number.append(this.#why);
  }

  /**
   * @param {CandidateRow[]} rows
   * @param {number} longest share that fills a whole bar
   */
  draw(rows, longest) {
    while (this.#rows.length < rows.length) this.#rows.push(new BarRow());
    for (const [i, row] of rows.entries()) this.#rows[i].draw(row, longest);
    const shown = this.#rows.slice(0, rows.length);
    if (this.node.childElementCount !== shown.length + 1)
      this.node.replaceChildren(...shown.map(({ node }) => node), this.#legend);
    this.#legend.hidden = !rows.some(isReshaped);
    this.#setTabStop();
    this.#moveWhy(shown.find((row) => row === this.#asked && row.row?.why));
  }
}
