// Plot of the z-score along the text, with the detection threshold.
import { svg } from "../shared/dom.mjs";
import { counted, fixed } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

const HIGH = 170;
const LEFT = 40;
const FOOT = 26;

export class Plot {
  node = svg("svg", { class: "wm-plot", role: "img" });

  // As wide as the card, so that letters keep their size on a phone.
  draw(curve, threshold, room) {
    const wide = Math.max(260, Math.min(760, room || 640));
    const values = curve.filter((z) => z !== null);
    const high = Math.max(threshold + 1, ...values, 1);
    const low = Math.min(-1, ...values);
    const end = Math.max(10, curve.length);
    const x = (n) => LEFT + (n / end) * (wide - LEFT - 12);
    const y = heightOf(low, high);
    const last = values.at(-1);
    const said =
      last === undefined
        ? tr("z over the tokens")
        : tr("z over the tokens, now {now}, threshold {threshold}", {
            now: fixed(last, 2),
            threshold,
          });
    this.node.setAttribute("viewBox", `0 0 ${wide} ${HIGH}`);
    this.node.setAttribute("aria-label", said);
    this.node.replaceChildren(
      ...axes(wide, threshold, y),
      svg("path", { class: "curve", d: pathOf(curve, x, y) || "M0 0", fill: "none" }),
      ...(last === undefined
        ? []
        : [svg("circle", { class: "dot", cx: x(curve.length), cy: y(last), r: 4 })]),
      svg("text", { x: LEFT, y: HIGH - 6 }, tr("z over the tokens written")),
      atEnd(wide, HIGH - 6, counted(curve.length, tr("1 token"), tr("{n} tokens"))),
    );
  }

  clear() {
    this.node.replaceChildren();
  }
}

const atEnd = (wide, y, text) => svg("text", { x: wide - 14, y, "text-anchor": "end" }, text);

/**
 * Function from a z-score to its height in the plot.
 * @drawing
 */
const heightOf = (low, high) => (z) => 8 + ((high - z) / (high - low)) * (HIGH - FOOT - 8);

/**
 * Lines and labels at zero and at the threshold.
 * @drawing
 */
function axes(wide, threshold, y) {
  const across = (kind, z) =>
    svg("line", { class: kind, x1: LEFT, x2: wide - 12, y1: y(z), y2: y(z) });
  const label = (z) => svg("text", { x: LEFT - 6, y: y(z) + 4, "text-anchor": "end" }, String(z));
  return [
    across("axis", 0),
    across("limit", threshold),
    atEnd(wide, y(threshold) - 4, tr("threshold")),
    label(0),
    label(threshold),
  ];
}

// Null values before the first counted token are skipped.
const pathOf = (curve, x, y) =>
  curve
    .map((z, i) => [i + 1, z])
    .filter(([, z]) => z !== null)
    .map(([n, z], i) => `${i ? "L" : "M"}${x(n).toFixed(1)} ${y(z).toFixed(1)}`)
    .join("");
