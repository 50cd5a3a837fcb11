// Two dials at once: asks for their map, and shows the text of each cell.
import { toCsv } from "../shared/csv.mjs";
import { createButton, el, saveAs } from "../shared/dom.mjs";
import { said } from "../shared/server_text.mjs";
import { formatDuration, formatFixed, formatSetting, pluralText } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import {
  createGridPlacing,
  drawGrid,
  findCell,
  findGridPlace,
  textLetters,
} from "./grid_picture.mjs";
import { isKnown, moveOffEdge } from "./intervals.mjs";
import { FIGURES, showText, watchWidth } from "./map_text.mjs";
import { drawAxis } from "./picture.mjs";

/** @import { DialGrid } from "./grid_picture.mjs" */

const COLUMNS = FIGURES.map(([name]) => name);

export class DialGridPart {
  /** @type {Run | null} */
  #run = null;
  /** @type {DialGrid | null} */
  #grid = null;
  #row = 0;
  #value = 0;
  #width = 0;
  #ctx;
  #title;

  /**
   * @param {Context} ctx
   * @param {(dial: string) => string} title of a dial
   */
  constructor(ctx, title) {
    this.#ctx = ctx;
    this.#title = title;
    this.say = el("p", { class: "dp-note", "aria-live": "polite" });
    this.ask = createButton(tr("Map temperature and top-p together"), () => this.#ask());
    this.stop = createButton(tr("Stop"), () => ctx.grids?.stop());
    this.stop.hidden = true;
    this.offer = el("div", { class: "dp-row gd-offer" }, this.ask, this.stop);
    this.cells = el("div", { class: "di-drawing" });
    this.box = el("div", {
      class: "gd-box",
      role: "slider",
      tabindex: 0,
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#handleKey(event),
      onpointerdown: (/** @type {PointerEvent} */ event) => this.#point(event),
      onpointermove: (/** @type {PointerEvent} */ event) => this.#point(event),
    });
    this.box.append(this.cells);
    this.axis = el("div", { class: "gd-axis" });
    this.caption = el("p", { class: "di-caption" });
    this.text = el("p", { class: "di-text gd-text" });
    this.use = createButton(tr("Use these values"), () => this.#use());
    this.use.hidden = !ctx.turn;
    const table = createButton(tr("Texts of both dials (.csv)"), () => this.#saveTable());
    const acts = el("div", { class: "dp-row di-acts" }, this.use, table);
    this.picture = el("div", { class: "gd-picture" }, this.box, this.axis, this.caption);
    this.picture.append(this.text, acts);
    this.root = el("section", { class: "gd-part" }, el("h4", {}, tr("Two dials at once")));
    this.root.append(this.say, this.offer, this.picture);
    watchWidth(this.cells, (width) => {
      this.#width = width;
      this.#draw();
    });
  }

  /** @param {Run} run an ended one */
  update(run) {
    if (run !== this.#run) this.#setBusy(false);
    this.#run = run;
    const grid = run.grid ?? null;
    this.root.hidden = !grid && !this.#ctx.grids;
    this.picture.hidden = !grid;
    this.offer.hidden = Boolean(grid);
    if (!grid) {
      this.#grid = null;
      this.#offerMap(run);
    } else if (grid !== this.#grid) this.#open(grid);
  }

  /** @param {Run} run */
  #offerMap(run) {
    if (!this.stop.hidden) return;
    const seconds = run.maps?.temperature?.view.two_dials_s ?? null;
    const cost =
      seconds === null
        ? ""
        : tr("It takes about {time} of computing, while nobody waits for a run.", {
            time: formatDuration(seconds),
          });
    this.say.textContent = [
      tr("See which texts this seed writes for every temperature at about twenty values of top-p."),
      cost,
    ].join(" ");
  }

  async #ask() {
    const run = this.#run;
    if (!run || !this.#ctx.grids) return;
    this.#setBusy(true);
    this.say.textContent = tr("The map is computed while nobody waits for a run.");
    const failed = await this.#ctx.grids.fetch(run);
    if (run !== this.#run) return;
    this.#setBusy(false);
    this.update(run);
    if (failed) this.say.textContent = failed;
  }

  /** @param {boolean} busy */
  #setBusy(busy) {
    const had = this.offer.contains(document.activeElement);
    this.ask.hidden = busy;
    this.stop.hidden = !busy;
    if (had) (busy ? this.stop : this.ask).focus();
  }

  /** @param {DialGrid} grid */
  #open(grid) {
    this.#grid = grid;
    const texts = pluralText(grid.texts.length, tr("1 text"), tr("{n} texts"));
    const first = tr("This seed writes {texts} here. The same letters are the same text.", {
      texts,
    });
    const [across, up] = [grid.dial, grid.second].map(this.#title);
    const axes = tr("Across: {across}. Up: {up}.", { across, up });
    const colour = tr("The deeper the colour, the more of its beginning is the run's text.");
    const circle = grid.second_value === null ? "" : tr("The circle is the run's own setting.");
    this.say.textContent = [axes, first, colour, circle, ...(grid.notes ?? []).map(said)].join(" ");
    this.#value = grid.value;
    this.#row = Math.max(0, grid.values.indexOf(grid.second_value ?? grid.values.at(-1) ?? 0));
    this.#draw();
  }

  #draw() {
    const [grid, width] = [this.#grid, this.#width];
    if (!grid || !width) return;
    const own = this.#run?.outputs[0]?.token_ids ?? [];
    this.cells.replaceChildren(drawGrid(grid, own, width));
    const { x } = createGridPlacing(grid, width);
    this.axis.style.marginLeft = `${x(grid.low)}px`;
    this.axis.replaceChildren(drawAxis(grid, width - x(grid.low)));
    const names = [grid.dial, grid.second].map(this.#title).join(", ");
    this.box.setAttribute("aria-label", names);
    this.box.setAttribute("aria-valuemin", String(grid.low));
    this.box.setAttribute("aria-valuemax", String(grid.high));
    this.#show();
  }

  /** Mark the cells of the chosen text, and show the whole text. */
  #show() {
    const [grid, run] = [this.#grid, this.#run];
    if (!grid || !run) return;
    const at = findCell(grid, this.#row, this.#value);
    const { text } = grid.cells[at];
    for (const [i, node] of [...this.cells.querySelectorAll("g[data-text]")].entries()) {
      node.classList.toggle("gd-same", grid.cells[i].text === text);
      node.classList.toggle("gd-here", i === at);
    }
    const count = grid.cells.filter((cell) => cell.text === text).length;
    const own = run.outputs[0]?.token_ids ?? [];
    const caption = [
      `${this.#title(grid.dial)} ${formatFixed(this.#value)}`,
      `${this.#title(grid.second)} ${formatSetting(grid.values[this.#row])}`,
      tr("text {letters}", { letters: textLetters(text) }),
      pluralText(count, tr("in 1 cell"), tr("in {n} cells")),
    ];
    this.caption.textContent = caption.join(" · ");
    const words = showText(this.text, grid.texts[text], grid.pieces, own, this.#isWhole(at));
    this.box.setAttribute("aria-valuenow", String(this.#value));
    this.box.setAttribute("aria-valuetext", `${caption.join(", ")}: ${words}`);
  }

  /** @param {number} at */
  #isWhole(at) {
    const grid = this.#grid;
    if (!grid) return false;
    const { end } = grid.texts[grid.cells[at].text];
    return ["eos", "length"].includes(end) && grid.cells[at].sure;
  }

  /** @param {PointerEvent} event */
  #point(event) {
    const grid = this.#grid;
    if (!grid) return;
    const { left, top } = this.cells.getBoundingClientRect();
    const place = findGridPlace(grid, this.#width, event.clientX - left, event.clientY - top);
    this.#value = place.value;
    this.#row = place.row;
    this.#show();
  }

  /** @param {KeyboardEvent} event */
  #handleKey(event) {
    const grid = this.#grid;
    if (!grid) return;
    const up = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    const right = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (up) this.#row = Math.min(grid.values.length - 1, Math.max(0, this.#row + up));
    else if (right) {
      const at = findCell(grid, this.#row, this.#value);
      const next = grid.cells[at + right];
      if (next?.row === this.#row) this.#value = (next.low + next.high) / 2;
    } else return;
    event.preventDefault();
    this.#show();
  }

  #use() {
    const grid = this.#grid;
    if (!grid) return;
    const intervals = grid.cells
      .filter((cell) => cell.row === this.#row)
      .map((cell) => ({ ...cell, ...grid.texts[cell.text] }));
    const value = isKnown(intervals[0]) ? moveOffEdge({ intervals }, this.#value) : this.#value;
    this.#ctx.turn?.(grid.dial, Number(value.toPrecision(4)));
    this.#ctx.turn?.(grid.second, grid.values[this.#row]);
  }

  #saveTable() {
    const [grid, run] = [this.#grid, this.#run];
    if (!grid || !run) return;
    const rows = grid.cells.map(({ row, low, high, text, sure }) => {
      const { token_ids, end } = grid.texts[text];
      return [
        ...[grid.values[row], low, high, textLetters(text), sure ? end : "too_narrow"],
        ...COLUMNS.map((name) => grid.view.figures[text][name]),
        token_ids.map((id) => grid.pieces[id]).join(""),
      ];
    });
    const columns = [grid.second, `${grid.dial}_low`, `${grid.dial}_high`, "letters", "end"];
    const name = `${run.strategy}-seed${run.seed}-${grid.dial}-${grid.second}.csv`;
    saveAs(name, "text/csv", toCsv([...columns, ...COLUMNS, "text"], rows));
  }
}
