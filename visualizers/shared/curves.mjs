// A line chart over the steps of a run, drawn as SVG. It is small enough for every page, where
// Plotly (4.8 MB) is not, and prints sharply.
import { formatFixed } from "../shared/text.mjs";
import { el, svg } from "./dom.mjs";

const HEIGHT = 230;
const MARGINS = { left: 40, right: 10, top: 10, bottom: 34 };
const TICK_STEPS = [1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000, 2000, 5000];
const MAX_X_TICKS = 12;
const MAX_Y_TICKS = 5;
const FLIP_SHARE = 0.7;

/**
 * @typedef {object} Curve
 * @property {string} name
 * @property {string} color a name of the page's colours
 * @property {"dot" | "dash" | ""} [dash]
 * @property {boolean} [dots] true to mark every point
 * @property {number[]} x
 * @property {(number | null)[]} y
 * @property {string[]} [text] label of each point, shown in the tooltip
 *
 * @typedef {ReturnType<typeof createScale>} Scale
 */

/**
 * Distance between two ticks, so that an axis has at most `most` of them.
 * @drawing
 * @param {number} span
 * @param {number} most
 */
const chooseTickStep = (span, most) => TICK_STEPS.find((size) => span / size <= most) ?? span;

/**
 * Values of an axis at which it has ticks.
 * @drawing
 * @param {number} low
 * @param {number} high
 * @param {number} most
 */
function tickValues(low, high, most) {
  const size = chooseTickStep(high - low, most);
  const first = Math.ceil(low / size);
  const count = Math.floor(high / size) - first + 1;
  return Array.from({ length: Math.max(0, count) }, (_, i) => (first + i) * size);
}

/**
 * Functions from a step and a value to pixels, and from pixels back to a step.
 * @drawing
 * @param {Curve[]} curves
 * @param {number} width
 */
function createScale(curves, width) {
  const x = curves.flatMap((curve) => curve.x);
  const [first, last] = [Math.min(...x), Math.max(...x)];
  const top = Math.max(1, ...curves.flatMap((curve) => curve.y.map((value) => value ?? 0)));
  const wide = width - MARGINS.left - MARGINS.right;
  const high = HEIGHT - MARGINS.top - MARGINS.bottom;
  const span = Math.max(1, last - first);
  return {
    first,
    last,
    top,
    right: width - MARGINS.right,
    bottom: HEIGHT - MARGINS.bottom,
    x: (/** @type {number} */ step) => MARGINS.left + (wide * (step - first)) / span,
    y: (/** @type {number} */ value) => MARGINS.top + high * (1 - value / top),
    at: (/** @type {number} */ place) => Math.round(first + (span * (place - MARGINS.left)) / wide),
  };
}

/**
 * SVG path of a curve, with a gap where a value is null.
 * @drawing
 * @param {Curve} curve
 * @param {Scale} scale
 */
function createLinePath({ x, y }, scale) {
  let pen = "M";
  return x
    .map((step, i) => {
      if (y[i] === null) {
        pen = "M";
        return "";
      }
      const drawn = `${pen}${scale.x(step).toFixed(1)} ${scale.y(y[i]).toFixed(1)}`;
      pen = "L";
      return drawn;
    })
    .join("");
}

/**
 * Grid lines with their labels, and the titles of both axes.
 * @drawing
 * @param {Scale} scale
 * @param {{ x: string, y: string }} title
 */
function createAxes(scale, title) {
  const across = tickValues(scale.first, scale.last, MAX_X_TICKS).map((step) => [
    svg("path", { class: "cv-grid", d: `M${scale.x(step)} ${MARGINS.top}V${scale.bottom}` }),
    svg("text", { class: "cv-tick", x: scale.x(step), y: scale.bottom + 14 }, step),
  ]);
  const up = tickValues(0, scale.top, MAX_Y_TICKS).map((value) => [
    svg("path", { class: "cv-grid", d: `M${MARGINS.left} ${scale.y(value)}H${scale.right}` }),
    svg("text", { class: "cv-tick end", x: MARGINS.left - 6, y: scale.y(value) + 4 }, value),
  ]);
  const middle = (MARGINS.left + scale.right) / 2;
  return [
    ...across.flat(),
    ...up.flat(),
    svg("text", { class: "cv-tick", x: middle, y: HEIGHT - 4 }, title.x),
    svg(
      "text",
      {
        class: "cv-tick",
        transform: `translate(11 ${(MARGINS.top + scale.bottom) / 2}) rotate(-90)`,
      },
      title.y,
    ),
  ];
}

/**
 * SVG path that marks every point with a stroke of length
 * zero, so that a long run adds one element.
 * @drawing
 * @param {Curve} curve
 * @param {Scale} scale
 */
const createDotsPath = ({ x, y }, scale) =>
  x
    .map((step, i) =>
      y[i] === null ? "" : `M${scale.x(step).toFixed(1)} ${scale.y(y[i]).toFixed(1)}h0`,
    )
    .join("");

/**
 * @param {Curve} curve
 * @param {Scale} scale
 */
const createLine = (curve, scale) => [
  svg("path", {
    class: `cv-line ${curve.color} ${curve.dash ?? ""}`,
    d: createLinePath(curve, scale),
  }),
  curve.dots
    ? svg("path", { class: `cv-dot ${curve.color}`, d: createDotsPath(curve, scale) })
    : null,
];

/** @param {Curve} curve */
const createLegendKey = ({ name, color, dash = "" }) =>
  el(
    "span",
    {},
    svg(
      "svg",
      { class: "cv-key", viewBox: "0 0 26 8", width: 26, height: 8, "aria-hidden": "true" },
      svg("path", { class: `cv-line ${color} ${dash}`, d: "M0 4H26" }),
    ),
    name,
  );

export class Curves {
  /** @type {Curve[]} */
  #curves = [];
  #title = { x: "", y: "" };
  /** @type {number | null} */
  #mark = null;
  /** @type {Scale | null} */
  #scale = null;
  // Set by the observer. Reading clientWidth instead would force a layout with every step.
  #width = 0;

  /**
   * @param {string} label of the chart for screen readers
   * @param {(step: number) => void} chosen called with the step nearest to a click
   */
  constructor(label, chosen) {
    this.picture = svg("svg", {
      class: "cv-picture",
      role: "img",
      "aria-label": label,
      height: HEIGHT,
    });
    this.legend = el("div", { class: "dp-legend cv-legend" });
    this.tip = el("div", { class: "cv-tip", hidden: true, "aria-hidden": "true" });
    this.node = el("div", { class: "cv-box" }, this.legend, this.picture, this.tip);
    this.picture.addEventListener("click", (event) => {
      if (this.#scale) chosen(this.#nearestStep(event, this.#scale));
    });
    this.picture.addEventListener("pointermove", (event) => {
      if (this.#scale) this.#showTip(this.#nearestStep(event, this.#scale), this.#scale);
    });
    this.picture.addEventListener("pointerleave", () => this.#hideTip());
    new ResizeObserver(([{ contentRect }]) => {
      this.#width = Math.round(contentRect.width);
      this.#drawChart();
    }).observe(this.node);
  }

  /**
   * @param {Curve[]} curves
   * @param {{ x: string, y: string }} title of the axes
   * @param {number | null} mark the selected step
   */
  draw(curves, title, mark) {
    this.#curves = curves;
    this.#title = title;
    this.#mark = mark;
    this.legend.replaceChildren(...curves.map(createLegendKey));
    this.#drawChart();
  }

  #drawChart() {
    const width = this.#width;
    if (!width || !this.#curves.some((curve) => curve.x.length)) return;
    const scale = createScale(this.#curves, width);
    this.#scale = scale;
    this.picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.over = svg("path", { class: "cv-hover" });
    const lines = this.#curves.map((curve) =>
      svg("g", { class: "cv-curve" }, createLine(curve, scale)),
    );
    this.picture.replaceChildren(
      ...createAxes(scale, this.#title),
      ...this.#createMark(scale),
      ...lines,
      this.over,
    );
  }

  /** @param {Scale} scale */
  #createMark(scale) {
    const mark = this.#mark;
    if (mark === null || mark < scale.first || mark > scale.last) return [];
    const d = `M${scale.x(mark)} ${MARGINS.top}V${scale.bottom}`;
    return [svg("path", { class: "cv-mark", d, "data-step": mark })];
  }

  /**
   * The step nearest to the pointer.
   * @param {MouseEvent} event
   * @param {Scale} scale
   */
  #nearestStep(event, { at, first, last }) {
    const { left } = this.picture.getBoundingClientRect();
    return Math.max(first, Math.min(last, at(event.clientX - left)));
  }

  /**
   * @param {number} step
   * @param {Scale} scale
   */
  #showTip(step, { x, bottom, right }) {
    const lines = this.#curves.flatMap((curve) => {
      const value = curve.y[curve.x.indexOf(step)] ?? null;
      if (value === null) return [];
      return [el("div", {}, `${curve.name}: ${formatFixed(value)} ${this.#title.y}`)];
    });
    if (!lines.length) return this.#hideTip();
    const named = this.#curves.find((curve) => curve.text);
    const token = named?.text?.[named.x.indexOf(step)] ?? "";
    this.over?.setAttribute("d", `M${x(step)} ${MARGINS.top}V${bottom}`);
    this.tip.replaceChildren(el("b", {}, `${step}  ${token}`), ...lines);
    this.tip.hidden = false;
    this.tip.classList.toggle("left", x(step) > FLIP_SHARE * right);
    this.tip.style.left = `${x(step)}px`;
  }

  #hideTip() {
    this.over?.removeAttribute("d");
    this.tip.hidden = true;
  }

  clear() {
    this.#curves = [];
    this.#scale = null;
    this.picture.replaceChildren();
    this.legend.replaceChildren();
  }
}
