// Arcs over the text from the selected word to earlier ones: those that it resembles, or the place from
// which a draft was copied.
import { setAttributes, svg } from "../shared/dom.mjs";

/**
 * An arc between two places of prompt and text, counted from 0.
 * @typedef {{ from: number, to: number, strength: number, solid: boolean }} Arc
 */

/** @type {Record<string, (step: Step, from: number) => Arc[]>} */
const ARCS = {
  contrastive: ({ detail }, from) =>
    /** @type {ContrastiveDetail} */ (detail).options.map(({ position, max_cosine }, k) => ({
      from,
      to: position,
      strength: max_cosine,
      solid: k === detail.chosen,
    })),
  draft: ({ detail: { match } }, from) =>
    match ? [{ from, to: match[0] + match[1], strength: 1, solid: true }] : [],
};

/**
 * The arcs of a step, the solid one last, so that it is on top.
 * @param {Run} run
 * @param {Step} step
 */
export function listArcs(run, step) {
  const before = run.model.is_encoder_decoder ? 0 : run.prompt_ids.length;
  const arcs = ARCS[step.detail?.kind]?.(step, before + step.keep) ?? [];
  return arcs.sort((a, b) => Number(a.solid) - Number(b.solid));
}

/** @typedef {{ x: number, y: number }} Point */

/**
 * The path of an arc; a longer one is higher.
 * @drawing
 * @param {Point} a
 * @param {Point} b
 */
function createArcPath(a, b) {
  const rise = Math.min(34, 14 + 0.06 * Math.abs(a.x - b.x));
  return `M${a.x} ${a.y}C${a.x} ${a.y - rise},${b.x} ${b.y - rise},${b.x} ${b.y}`;
}

/**
 * Width of the line of an arc.
 * @drawing
 * @param {number} strength from 0 to 1
 */
const arcWidth = (strength) => 1 + 2 * Math.max(0, strength);

export class Arcs {
  node = svg("svg", { class: "tx-arcs", "aria-hidden": "true" });

  /**
   * @param {HTMLElement} box that the arcs are drawn over
   * @param {Arc[]} arcs
   * @param {(place: number) => Element | null | undefined} nodeAt
   */
  draw(box, arcs, nodeAt) {
    box.classList.toggle("with-arcs", arcs.length > 0);
    const frame = box.getBoundingClientRect();
    /** @type {(node: Element) => Point} */
    const top = (node) => {
      const rect = node.getClientRects()[0] ?? frame;
      return {
        x: rect.left + rect.width / 2 - frame.left + box.scrollLeft,
        y: rect.top - frame.top + box.scrollTop + 4,
      };
    };
    const drawn = arcs.flatMap(({ from, to, strength, solid }) => {
      const [a, b] = [nodeAt(from), nodeAt(to)];
      if (!a || !b) return [];
      const kind = solid ? "solid" : null;
      const end = top(b);
      const path = svg("path", { d: createArcPath(top(a), end), class: kind });
      path.style.strokeWidth = String(arcWidth(strength));
      return [path, svg("circle", { cx: end.x, cy: end.y, r: 3.5, class: kind })];
    });
    setAttributes(this.node, { width: box.scrollWidth, height: box.scrollHeight });
    this.node.replaceChildren(...drawn);
  }
}
