// The SVG of the tree. Each step is a layer that is added
// once; nodes move only when a group needs more rows.
import { setAttributes, svg } from "../shared/dom.mjs";
import { tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import {
  COLUMN_WIDTH,
  GUTTER_WIDTH,
  NODE_HEIGHT,
  NODE_WIDTH,
  PILL_WIDTH,
  ROW_HEIGHT,
  TREE_LEFT,
  TREE_TOP,
} from "./geometry.mjs";
import { describeTreeNode, FATE_MARKS, shortenText } from "./words.mjs";

/** @import { Badge, TreeGroup, TreeNode, TreeOwner } from "./tree.d.ts" */

// Below this scale labels are hidden, because they are too small to read.
const MIN_TEXT_SCALE = 0.5;
// Number of steps before and after the visible ones that stay in the page.
const KEPT_STEPS = 16;

/** @param {TreeNode} node */
const isDropped = (node) => node.data.fate !== "kept" && node.data.fate !== "finished";

/**
 * Width of the bar of a probability, at least one unit.
 * @drawing
 * @param {number} p
 */
const barWidth = (p) => Math.max(1, (NODE_WIDTH - 10) * p);

/** @param {Layer} layer */
const layerParts = ({ group, name }) => [group, name];

/**
 * @param {Event} event
 * @param {string} query
 */
const closest = ({ target }, query) => (target instanceof Element ? target.closest(query) : null);

/**
 * The node that an event hit.
 * @param {Event} event
 */
export const findNode = (event) =>
  /** @type {TreeNode["box"] | null} */ (closest(event, ".bt-node"))?.dpNode ?? null;

/**
 * The node or group whose badge an event hit.
 * @param {Event} event
 */
export const findBadgeOwner = (event) =>
  /** @type {Badge | null} */ (closest(event, ".bt-badge"))?.dpOwner ?? null;

/**
 * The drawing of a step.
 * @typedef {{ lines: SVGGElement, nodes: SVGGElement, group: SVGGElement, name: SVGTextElement }} Layer
 */

export class Canvas {
  /** @type {Layer[]} */
  layers = [];
  #renderedRange = [0, -1];
  #attachedRange = [0, -1];

  constructor() {
    this.back = svg("g", {});
    this.frame = svg("g", {});
    this.boxes = svg("g", { class: "bt-boxes" });
    this.ruler = svg("g", { class: "bt-fixed bt-ruler" });
    this.gutter = svg("g", { class: "bt-fixed bt-gutter" });
    this.now = svg("rect", { class: "bt-selected-step", rx: 6 });
    const attrs = {
      class: "bt-svg",
      role: "group",
      "aria-label": tr(
        "Beam tree. Arrow keys go from node to node, f folds the dropped candidates of a node.",
      ),
    };
    this.node = svg("svg", attrs, this.back, this.frame, this.boxes, this.ruler, this.gutter);
  }

  clear() {
    this.layers = [];
    this.#renderedRange = [0, -1];
    this.#attachedRange = [0, -1];
    for (const part of [this.back, this.frame, this.boxes, this.ruler, this.gutter])
      part.replaceChildren();
    this.node.classList.remove("ended");
  }

  /** @param {TreeGroup[]} groups */
  begin(groups) {
    this.ruler.append(svg("rect", { class: "bt-cover", x: 0, y: 0, height: TREE_TOP - 6 }));
    for (const group of groups) {
      group.band = svg("rect", { class: "bt-band", x: GUTTER_WIDTH, rx: 8 });
      group.box = svg(
        "g",
        { class: "bt-root-node" },
        svg("rect", { class: "bt-rect", width: PILL_WIDTH, height: NODE_HEIGHT, rx: 11 }),
        svg("text", { x: PILL_WIDTH / 2, y: 15, "text-anchor": "middle" }, tr("prompt")),
      );
      this.back.append(group.band);
      this.frame.append(group.box);
    }
    this.back.append(this.now);
  }

  // Create the layer of the next step. It is attached to the page once it is near the visible part.
  addLayer() {
    const step = this.layers.length;
    const layer = {
      lines: svg("g", {}),
      nodes: svg("g", {}),
      group: svg("g", { class: "bt-layer far" }),
      name: svg("text", { x: TREE_LEFT + step * COLUMN_WIDTH + 2, y: 15 }, step + 1),
    };
    layer.group.append(layer.lines, layer.nodes);
    this.layers.push(layer);
    return layer;
  }

  /**
   * @param {Run} run
   * @param {TreeNode} node
   * @param {Layer} layer
   */
  draw(run, node, layer) {
    const { fate, diversity_penalty: charge } = node.data;
    const ghost = isDropped(node) ? " ghost" : "";
    node.line = svg("path", { class: `bt-line ${fate}${ghost}`, fill: "none" });
    node.text = svg("text", { x: 9, y: 15 });
    this.label(run, node);
    const bar = {
      class: "bt-prob",
      x: 5,
      y: NODE_HEIGHT - 4,
      height: 2.5,
      rx: 1,
      width: barWidth(node.p),
    };
    const attrs = {
      class: `bt-node new ${fate}${ghost}`,
      role: "button",
      tabindex: -1,
      "aria-label": describeTreeNode(run, node),
    };
    node.box = svg(
      "g",
      attrs,
      svg("rect", { class: "bt-rect", width: NODE_WIDTH, height: NODE_HEIGHT, rx: 6 }),
      svg("rect", bar),
      node.text,
    );
    if (charge > 0) {
      const place = { class: "bt-charge", x: NODE_WIDTH - 5, y: 10, "text-anchor": "end" };
      node.box.append(svg("text", place, `−${+charge.toFixed(2)}`));
    }
    node.box.dpNode = node;
    layer.lines.append(node.line);
    layer.nodes.append(node.box);
  }

  /**
   * Mark a node of the greedy path.
   * @param {Run} run
   * @param {TreeNode} node
   */
  markGreedy(run, node) {
    const { box, line } = node;
    const y = node.data.diversity_penalty > 0 ? 18 : 10;
    box.classList.add("greedy");
    line.classList.add("greedy");
    box.append(svg("text", { class: "bt-g", x: NODE_WIDTH - 5, y, "text-anchor": "end" }, "G"));
    const label = describeTreeNode(run, node);
    box.setAttribute("aria-label", tr("{node}, on the greedy path", { node: label }));
  }

  /** @param {TreeOwner} owner */
  badge(owner) {
    if (owner.badge) return;
    const left = ("data" in owner ? NODE_WIDTH : PILL_WIDTH) - 17;
    /** @type {Badge} */
    const badge = svg(
      "g",
      {
        class: "bt-badge",
        "aria-hidden": "true",
        transform: `translate(${left} ${NODE_HEIGHT - 6})`,
      },
      svg("rect", { width: 22, height: 13, rx: 6.5 }),
      svg("text", { x: 11, y: 9.5, "text-anchor": "middle" }),
    );
    badge.dpOwner = owner;
    owner.badge = badge;
    owner.box.append(badge);
  }

  /**
   * @param {Run} run
   * @param {TreeNode} node
   * @param {string} star
   */
  label(run, node, star = "") {
    const before = star + (FATE_MARKS[node.data.fate] || "");
    const room = (node.data.diversity_penalty > 0 ? 8 : 11) - before.length;
    node.text.textContent = before + shortenText(tokenLabel(run, node.data.token_id), room);
  }

  /**
   * Place the band, prompt and row names of every group.
   * @param {TreeGroup[]} groups
   */
  stack(groups) {
    const cover = { class: "bt-cover", x: 0, y: 0, width: GUTTER_WIDTH - 6, height: "100%" };
    this.gutter.replaceChildren(svg("rect", cover));
    for (const group of groups) {
      setAttributes(group.band, { y: group.top - 5, height: group.lanes * ROW_HEIGHT + 2 });
      group.box.setAttribute(
        "transform",
        `translate(${TREE_LEFT - COLUMN_WIDTH + 26} ${group.top})`,
      );
      /**
       * @param {number} row
       * @param {string} text
       * @param {string} [kind]
       */
      const name = (row, text, kind) =>
        this.gutter.append(svg("text", { class: kind, x: 4, y: group.top + row + 15 }, text));
      const beams = group.lanes > 1 ? tr("beams") : tr("beam");
      name(0, groups.length > 1 ? tr("group {n}", { n: group.number + 1 }) : beams, "strong");
      if (group.shelf) name(group.lanes * ROW_HEIGHT + 4, tr("finished"));
      const below = (group.lanes + group.shelf) * ROW_HEIGHT + 4 + (group.shelf ? 4 : 0);
      if (group.dropped) name(below, tr("dropped"));
    }
  }

  /**
   * @param {TreeGroup[]} groups
   * @param {number} wide
   * @param {number} high
   * @param {number} scale
   */
  resize(groups, wide, high, scale) {
    const viewBox = `0 0 ${wide} ${high}`;
    setAttributes(this.node, { viewBox, width: wide * scale, height: high * scale });
    this.node.classList.toggle("tiny", scale < MIN_TEXT_SCALE);
    for (const group of groups) setAttributes(group.band, { width: wide - GUTTER_WIDTH - 4 });
    if (this.ruler.firstElementChild) setAttributes(this.ruler.firstElementChild, { width: wide });
    setAttributes(this.now, { height: high - 4, width: NODE_WIDTH + 12, y: 2 });
  }

  /**
   * Keep the names of rows and steps in view while the tree scrolls.
   * @param {number} left
   * @param {number} top
   */
  pin(left, top) {
    this.gutter.setAttribute("transform", `translate(${left} 0)`);
    this.ruler.setAttribute("transform", `translate(0 ${top})`);
  }

  /**
   * Hide layers outside the visible part, and detach those
   * far outside, so that a long search scrolls fast.
   * @param {number} first
   * @param {number} last
   */
  render(first, last) {
    const [before, after] = this.#renderedRange;
    const end = Math.min(Math.max(last, after), this.layers.length - 1);
    for (let i = Math.min(first, before); i <= end; i++)
      this.layers[i].group.classList.toggle("far", i < first || i > last);
    this.#renderedRange = [first, last];
    this.#attachLayers(first - KEPT_STEPS, last + KEPT_STEPS);
  }

  /**
   * Attach the layers of a range of steps in order, and detach all others.
   * @param {number} from
   * @param {number} to
   */
  #attachLayers(from, to) {
    const [before, after] = this.#attachedRange;
    const [first, last] = [Math.max(0, from), Math.min(to, this.layers.length - 1)];
    for (let i = before; i <= after; i++)
      if (i < first || i > last) for (const part of layerParts(this.layers[i])) part.remove();
    const next = this.boxes.firstChild;
    for (let i = first; i <= last; i++) {
      if (i >= before && i <= after) continue;
      this.boxes.insertBefore(this.layers[i].group, i < before ? next : null);
      this.ruler.append(this.layers[i].name);
    }
    this.#attachedRange = [first, last];
  }

  /** A copy of the drawing with all layers attached. */
  whole() {
    const [first, last] = this.#attachedRange;
    this.#attachLayers(0, this.layers.length);
    const copy = this.node.cloneNode(true);
    this.#attachLayers(first, last);
    return /** @type {SVGSVGElement} */ (copy);
  }
}
