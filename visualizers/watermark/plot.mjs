// Plot of the z-score along the text, with the detection threshold.
import { svg } from "../shared/dom.mjs";
import { formatFixed, pluralText } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

const PLOT_HEIGHT = 170;
const LEFT_MARGIN = 40;
const BOTTOM_MARGIN = 26;

export class ScorePlot {
  node = svg("svg", { class: "wm-plot", role: "img" });

  /**
   * As wide as the card, so that letters keep their size on a phone.
   * @param {(number | null)[]} curve
   * @param {number} limit
   * @param {number} room
   */
  draw(curve, limit, room) {
    const wide = Math.max(260, Math.min(760, room || 640));
    const values = curve.filter((z) => z !== null);
    const high = Math.max(limit + 1, ...values, 1);
    const low = Math.min(-1, ...values);
    const end = Math.max(10, curve.length);
    /** @param {number} n */
    const x = (n) => LEFT_MARGIN + (n / end) * (wide - LEFT_MARGIN - 12);
    const y = createHeightScale(low, high);
    const last = values.at(-1);
    const said =
      last === undefined
        ? tr("z over the tokens")
        : tr("z over the tokens, now {now}, threshold {threshold}", {
            now: formatFixed(last, 2),
            threshold: limit,
          });
    this.node.setAttribute("viewBox", `0 0 ${wide} ${PLOT_HEIGHT}`);
    this.node.setAttribute("aria-label", said);
    this.node.replaceChildren(
      ...createAxes(wide, limit, y),
      svg("path", { class: "curve", d: createCurvePath(curve, x, y) || "M0 0", fill: "none" }),
      ...(last === undefined
        ? []
        : [svg("circle", { class: "dot", cx: x(curve.length), cy: y(last), r: 4 })]),
      svg("text", { x: LEFT_MARGIN, y: PLOT_HEIGHT - 6 }, tr("z over the tokens written")),
      createEndLabel(
        wide,
        PLOT_HEIGHT - 6,
        pluralText(curve.length, tr("1 token"), tr("{n} tokens")),
      ),
    );
  }

  clear() {
    this.node.replaceChildren();
  }
}

/**
 * @param {number} wide
 * @param {number} y
 * @param {string} text
 */
const createEndLabel = (wide, y, text) =>
  svg("text", { x: wide - 14, y, "text-anchor": "end" }, text);

/**
 * Function from a z-score to its height in the plot.
 * @drawing
 * @param {number} low
 * @param {number} high
 */
const createHeightScale = (low, high) => (/** @type {number} */ z) =>
  8 + ((high - z) / (high - low)) * (PLOT_HEIGHT - BOTTOM_MARGIN - 8);

/**
 * Lines and labels at zero and at the threshold.
 * @drawing
 * @param {number} wide
 * @param {number} threshold
 * @param {(z: number) => number} y
 */
function createAxes(wide, threshold, y) {
  /**
   * @param {string} kind
   * @param {number} z
   */
  const across = (kind, z) =>
    svg("line", { class: kind, x1: LEFT_MARGIN, x2: wide - 12, y1: y(z), y2: y(z) });
  /** @param {number} z */
  const label = (z) =>
    svg("text", { x: LEFT_MARGIN - 6, y: y(z) + 4, "text-anchor": "end" }, String(z));
  return [
    across("axis", 0),
    across("limit", threshold),
    createEndLabel(wide, y(threshold) - 4, tr("threshold")),
    label(0),
    label(threshold),
  ];
}

/**
 * Null values before the first counted token are skipped.
 * @param {(number | null)[]} curve
 * @param {(n: number) => number} x
 * @param {(z: number) => number} y
 */
const createCurvePath = (curve, x, y) =>
  curve
    .flatMap((z, i) => (z === null ? [] : [/** @type {[number, number]} */ ([i + 1, z])]))
    .map(([n, z], i) => `${i ? "L" : "M"}${x(n).toFixed(1)} ${y(z).toFixed(1)}`)
    .join("");
