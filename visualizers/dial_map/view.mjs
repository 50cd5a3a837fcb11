// View of a dial map: every text that the run would write along a dial, with a line to drag.
import { toCsv } from "../shared/csv.mjs";
import { createButton, createFact, el, saveAs } from "../shared/dom.mjs";
import { KEY_STEPS } from "../shared/keys.mjs";
import { said } from "../shared/server_text.mjs";
import { formatFixed, pluralText, toCssLength } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { DialGridPart } from "./grid.mjs";
import { captionTexts, findPlace, isKnown } from "./intervals.mjs";
import { FIGURES, showText, watchWidth } from "./map_text.mjs";
import { createPlacing, drawAxis, drawCells, drawFigure, valueAt } from "./picture.mjs";

/** @import { DialMap } from "./intervals.mjs" */

/** @type {Record<string, string>} */
const DIAL_TITLES = {
  temperature: tr("Temperature"),
  top_p: tr("Top-p"),
  top_k: tr("Top-k"),
  min_p: tr("Min-p"),
};

/** @param {string} dial */
const dialTitle = (dial) => DIAL_TITLES[dial] ?? dial;

class DialMapView {
  /** @type {Run | null} */
  #run = null;
  /** @type {DialMap | null | undefined} undefined before the first run */
  #map;
  #value = 0;
  #width = 0;
  #ctx;

  /**
   * @param {HTMLElement} root
   * @param {Context} ctx
   */
  constructor(root, ctx) {
    this.#ctx = ctx;
    this.dials = el("div", { class: "dp-row di-dials" });
    this.say = el("p", { class: "dp-note di-say" });
    this.line = el("span", { class: "di-line", "aria-hidden": "true" });
    this.cells = el("div", { class: "di-drawing" });
    this.box = el("div", {
      class: "di-box dp-scroll-whole",
      role: "slider",
      tabindex: 0,
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#handleKey(event),
      onpointerdown: (/** @type {PointerEvent} */ event) => this.#startDrag(event),
      onpointermove: (/** @type {PointerEvent} */ event) => event.buttons && this.#drag(event),
    });
    this.box.append(el("div", { class: "di-whole" }, this.cells, this.line));
    this.axis = el("div", { class: "di-axis" });
    this.caption = el("p", { class: "di-caption" });
    this.text = el("p", { class: "di-text" });
    this.figures = el("div", { class: "di-figures" });
    this.use = createButton(tr("Use this value"), () => this.#use());
    this.use.hidden = !ctx.turn;
    const table = createButton(tr("Texts (.csv)"), () => this.#saveTable());
    this.picture = el("div", { class: "di-picture" }, this.box, this.axis);
    this.acts = el("div", { class: "dp-row di-acts" }, this.use, table);
    this.grid = new DialGridPart(ctx, dialTitle);
    root.append(
      ...[this.dials, this.say, this.picture, this.caption, this.text, this.figures, this.acts],
      this.grid.root,
    );
    watchWidth(this.cells, (width) => {
      this.#width = width;
      this.#draw();
    });
  }

  /** @param {Run} run */
  update(run) {
    const maps = run.maps ?? {};
    const chosen = this.#run === run && this.#map ? this.#map.dial : "";
    this.#run = run;
    const map = maps[chosen] ?? Object.values(maps)[0] ?? null;
    this.#listDials(Object.keys(maps), map);
    if (map !== this.#map) this.#open(map);
    this.grid.update(run);
    // Where the run has no map of one dial, it has none of two.
    this.grid.root.hidden ||= !map;
  }

  /** @param {DialMap | null} map */
  #open(map) {
    this.#map = map;
    this.say.classList.toggle("dp-no-picture", !map);
    for (const part of [this.picture, this.caption, this.text, this.figures, this.acts])
      part.hidden = !map;
    if (!map)
      this.say.textContent = tr(
        "The map is not known yet. It is computed while nobody waits for a run.",
      );
    else {
      const { length } = map.intervals;
      const count = pluralText(length, tr("1 different text"), tr("{n} different texts"));
      const why = [...(map.notes ?? []), map.reason ?? ""].filter(Boolean).map(said);
      this.say.textContent = [
        tr("One vertical line is one text. This seed writes {count} along the dial.", { count }),
        tr("Pale: the model's favourite. Deeper: a less likely token."),
        ...why,
      ].join(" ");
      this.#value = map.value;
      this.#draw();
    }
  }

  /**
   * @param {string[]} dials
   * @param {DialMap | null} map
   */
  #listDials(dials, map) {
    this.dials.hidden = dials.length < 2;
    this.dials.replaceChildren(
      ...dials.map((dial) => {
        const open = () => {
          this.#open(this.#run?.maps?.[dial] ?? null);
          this.#listDials(dials, this.#map ?? null);
        };
        return createButton(dialTitle(dial), open, { "aria-pressed": String(dial === map?.dial) });
      }),
    );
  }

  #draw() {
    const [map, width] = [this.#map, this.#width];
    if (!map || !width) return;
    this.cells.replaceChildren(drawCells(map, width));
    this.axis.replaceChildren(drawAxis(map, width));
    for (const node of [this.axis, this.figures]) node.style.width = `${width}px`;
    this.figures.replaceChildren(
      ...FIGURES.map(([name, title]) =>
        el(
          "div",
          { class: "di-figure", "data-figure": name },
          el("p", {}, createFact(title, "")),
          drawFigure(map, name, width),
          el("span", { class: "di-line", "aria-hidden": "true" }),
        ),
      ),
    );
    for (const [name, value] of [
      ["valuemin", map.low],
      ["valuemax", map.high],
    ])
      this.box.setAttribute(`aria-${name}`, String(value));
    this.box.setAttribute("aria-label", dialTitle(map.dial));
    this.#show();
  }

  /** Show the line, the text at it and the figures of that text. */
  #show() {
    const [map, run] = [this.#map, this.#run];
    if (!map || !run) return;
    const own = run.outputs[0]?.token_ids ?? [];
    const place = findPlace(map, own, this.#value);
    const at = this.#nearest();
    const caption = [
      `${dialTitle(map.dial)} ${formatFixed(this.#value)}`,
      ...captionTexts(map, place),
    ];
    this.caption.textContent = caption.join(" · ");
    const text = map.intervals[at];
    const isWhole = isKnown(text) && text.end !== "cut";
    const words = showText(this.text, text, map.pieces, own, isWhole);
    const left = toCssLength(createPlacing(map, 1)(this.#value));
    /** @type {NodeListOf<HTMLElement>} */
    const lines = this.figures.querySelectorAll(".di-line");
    for (const line of [this.line, ...lines]) line.style.left = left;
    for (const [i, [name, , format]] of FIGURES.entries()) {
      const value = this.figures.children[i]?.querySelector("b");
      if (value) value.textContent = format(map.view.figures[at][name]);
    }
    this.box.setAttribute("aria-valuenow", String(this.#value));
    this.box.setAttribute("aria-valuetext", `${caption.join(", ")}: ${words}`);
  }

  // The stretch of the value, or the nearest one between two stops.
  #nearest() {
    const edges = this.#map?.view.edges ?? [];
    const at = edges.findIndex((edge, i) => i > 0 && this.#value <= edge);
    return at < 1 ? Math.max(0, edges.length - 2) : at - 1;
  }

  /** @param {number} value */
  #move(value) {
    this.#value = value;
    this.#show();
  }

  /** @param {PointerEvent} event */
  #startDrag(event) {
    // Not at once for a finger: it may scroll the picture.
    if (event.pointerType === "mouse") this.box.setPointerCapture(event.pointerId);
    this.#drag(event);
  }

  /** @param {PointerEvent} event */
  #drag(event) {
    const { left, width } = this.cells.getBoundingClientRect();
    if (this.#map) this.#move(valueAt(this.#map, (event.clientX - left) / width));
  }

  /** @param {KeyboardEvent} event */
  #handleKey(event) {
    const [map, step] = [this.#map, KEY_STEPS[event.key]];
    if (!map || step === undefined) return;
    const last = map.intervals.length - 1;
    const { low, high } = map.intervals[Math.max(0, Math.min(last, this.#nearest() + step))];
    this.#move((low + high) / 2);
    event.preventDefault();
  }

  #use() {
    if (this.#map) this.#ctx.turn?.(this.#map.dial, Number(this.#value.toPrecision(4)));
  }

  #saveTable() {
    const [map, run] = [this.#map, this.#run];
    if (!map || !run) return;
    const rows = map.intervals.map(({ low, high, token_ids, end, sure }, i) => [
      ...[low, high, sure ? end : "too_narrow"],
      ...FIGURES.map(([name]) => map.view.figures[i][name]),
      token_ids.map((id) => map.pieces[id]).join(""),
    ]);
    const columns = ["low", "high", "end", ...FIGURES.map(([name]) => name), "text"];
    saveAs(`${run.strategy}-seed${run.seed}-${map.dial}.csv`, "text/csv", toCsv(columns, rows));
  }

  select() {}

  clear() {
    this.#run = null;
    this.#map = undefined;
  }
}

/** @type {ViewSpec} */
export const dialMap = {
  title: tr("Every text along a dial"),
  place: "drawer",
  tab: tr("Map"),
  whole: true,
  empty: tr("After a run: every text that this seed writes while one dial moves."),
  mount: (root, ctx) => new DialMapView(root, ctx),
};
