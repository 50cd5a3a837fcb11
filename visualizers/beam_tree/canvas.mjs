// The SVG of the tree. Each step is a layer that is added once, and changes only where a place does.
import { setAttributes, svg } from "../shared/dom.mjs";
import { formatNumber } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { isContinued } from "./forest.mjs";
import {
  COLUMN_GAP,
  createLine,
  LABEL_HEIGHT,
  LINE_GAP,
  lineWidth,
  NODE_HEIGHT,
  TREE_TOP,
} from "./geometry.mjs";
import { listDropped } from "./layout.mjs";
import { createMeasure } from "./measure.mjs";
import { describeTreeNode, nodeWord, rootWord } from "./words.mjs";

/** @import { Layout } from "./layout.mjs" */
/** @import { Badge, TreeGroup, TreeNode, TreeOwner } from "./tree.d.ts" */

// Below this scale labels are hidden, because they are too small to read.
const MIN_TEXT_SCALE = 0.5;
// Number of steps before and after the visible ones that stay in the page.
const KEPT_STEPS = 16;
const BASELINE = 24;
const CROSS = " ✕";
const SHAPES = ["●", "■", "▲", "◆", "○", "□", "△", "◇"];

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
 * Set an attribute if it changes, because setting one costs a layout.
 * @param {Element} node
 * @param {string} name
 * @param {string} value
 */
function update(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/**
 * The drawing of a step.
 * @typedef {{ lines: SVGGElement, nodes: SVGGElement, group: SVGGElement, name: SVGTextElement }} Layer
 */

export class Canvas {
  /** @type {Layer[]} */
  layers = [];
  #renderedRange = [0, -1];
  #attachedRange = [0, -1];
  #selectedStep = -1;
  /** @type {(word: string) => number} */
  #measure = () => 0;

  constructor() {
    this.back = svg("g", {});
    this.frame = svg("g", {});
    const attrs = {
      class: "bt-boxes",
      role: "tree",
      "aria-label": tr(
        "Tree of the texts. Arrow keys go from word to word, F shows or hides what was dropped after a word.",
      ),
    };
    this.boxes = svg("g", attrs);
    this.ruler = svg("g", { class: "bt-fixed bt-ruler", "aria-hidden": "true" });
    this.labels = svg("g", { class: "bt-fixed bt-labels" });
    this.now = svg("rect", { class: "bt-selected-step", rx: 8 });
    this.node = svg(
      "svg",
      { class: "bt-svg" },
      this.back,
      this.frame,
      this.boxes,
      this.labels,
      this.ruler,
    );
  }

  clear() {
    this.layers = [];
    this.#renderedRange = [0, -1];
    this.#attachedRange = [0, -1];
    this.#selectedStep = -1;
    for (const part of [this.back, this.frame, this.boxes, this.labels, this.ruler])
      part.replaceChildren();
  }

  /**
   * Draw the end of the prompt at the root of every group. Returns its width.
   * @param {Run} run
   * @param {TreeGroup[]} groups
   */
  begin(run, groups) {
    this.#measure = createMeasure(this.node);
    this.ruler.append(svg("rect", { class: "bt-cover", height: TREE_TOP - 4 }));
    this.back.append(this.now);
    const several = groups.length > 1;
    let width = 0;
    for (const group of groups) {
      const shape = several ? `${SHAPES[group.number % SHAPES.length]} ` : "";
      const word = shape + rootWord(run);
      width = Math.max(width, this.#measure(word));
      group.box = svg("g", { class: "bt-root-node" }, svg("text", { y: BASELINE }, word));
      this.frame.append(group.box);
      if (!several) continue;
      group.rule = svg("path", { class: "bt-rule" });
      group.label = svg("text", {}, tr("Group {n}", { n: group.number + 1 }));
      this.back.append(group.rule);
      this.labels.append(group.label);
    }
    return width;
  }

  // Create the layer of the next step. It is attached to the page once it is near the visible part.
  addLayer() {
    const layer = {
      lines: svg("g", {}),
      nodes: svg("g", {}),
      group: svg("g", { class: "bt-layer far" }),
      name: svg("text", { y: 16 }, this.layers.length + 1),
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
    const ghost = isContinued(node) ? "" : " ghost";
    node.line = svg("path", { class: `bt-line ${fate}${ghost}`, fill: "none" });
    node.text = svg("text", { y: BASELINE });
    const attrs = {
      class: `bt-node new ${fate}${ghost}`,
      role: "treeitem",
      "aria-level": node.column + 1,
      tabindex: -1,
      "aria-label": describeTreeNode(run, node),
    };
    const frame = { class: "bt-rect", x: -LINE_GAP, height: NODE_HEIGHT, rx: 6 };
    node.box = svg("g", attrs, svg("rect", frame), node.text);
    if (charge > 0)
      node.box.append(svg("text", { class: "bt-charge", y: 9 }, formatNumber(-charge)));
    node.box.dpNode = node;
    node.word = nodeWord(run, node.data);
    this.#writeWord(node, ghost ? CROSS : "");
    node.line.setAttribute("stroke-width", String(lineWidth(node.p, false)));
    layer.lines.append(node.line);
    layer.nodes.append(node.box);
  }

  /**
   * @param {TreeNode} node
   * @param {string} cross
   */
  #writeWord(node, cross) {
    node.width = this.#measure(node.word + cross);
    node.text.replaceChildren(node.word, cross && svg("tspan", { class: "bt-cross" }, cross));
    node.box.firstElementChild?.setAttribute("width", String(node.width + 2 * LINE_GAP));
  }

  /**
   * Mark a node that the search kept, and whose continuations it all dropped later.
   * @param {TreeNode} node
   */
  markDead(node) {
    node.box.classList.add("dead");
    node.line.classList.add("dead");
    if (!node.children.some(isContinued)) this.#writeWord(node, CROSS);
  }

  /**
   * Mark a node as part of the leading text, or not any more.
   * @param {TreeNode} node
   * @param {boolean} best
   */
  markBest({ box, line, p }, best) {
    for (const part of [box, line]) part.classList.toggle("best", best);
    line.setAttribute("stroke-width", String(lineWidth(p, best)));
    if (best) line.parentNode?.append(line);
  }

  /**
   * @param {TreeNode} node
   * @param {boolean} selected
   */
  select({ box }, selected) {
    box.classList.toggle("sel", selected);
    box.setAttribute("aria-selected", String(selected));
  }

  /**
   * Mark a node of the greedy path.
   * @param {Run} run
   * @param {TreeNode} node
   */
  markGreedy(run, node) {
    const { box, line } = node;
    box.classList.add("greedy");
    line.classList.add("greedy");
    const label = describeTreeNode(run, node);
    box.setAttribute("aria-label", tr("{node}, on the greedy path", { node: label }));
  }

  /**
   * Create the number of dropped continuations of a node.
   * @param {TreeOwner} owner
   */
  badge(owner) {
    if (owner.badge) return;
    /** @type {Badge} */
    const badge = svg(
      "g",
      { class: "bt-badge", "aria-hidden": "true", transform: `translate(0 ${NODE_HEIGHT - 9})` },
      svg("rect", { width: 22, height: 14, rx: 7 }),
      svg("text", { x: 11, y: 10.5, "text-anchor": "middle" }),
    );
    badge.dpOwner = owner;
    owner.badge = badge;
    owner.box.append(badge);
  }

  /**
   * Write the number of dropped continuations, and whether they are hidden.
   * @param {Badge} badge
   * @param {number} count
   * @param {boolean} hidden
   */
  #count(badge, count, hidden) {
    const label = (hidden ? "+" : "−") + count;
    if (badge.textContent !== label) badge.lastElementChild?.replaceChildren(label);
    badge.classList.toggle("open", !hidden);
  }

  /**
   * Put everything where the layout says.
   * @param {Layout} layout
   */
  arrange(layout) {
    const { groups, columns } = layout.forest;
    for (const group of groups) {
      update(group.box, "transform", `translate(0 ${group.top})`);
      if (!group.label) continue;
      update(group.rule, "d", `M0 ${group.top - LABEL_HEIGHT + 2}H${layout.width}`);
      update(group.label, "y", String(group.top - 6));
    }
    for (const [i, column] of columns.entries()) {
      update(this.layers[i].name, "x", String(layout.edges[i]));
      for (const node of column) this.#place(layout, node);
    }
    for (const owner of [...groups, ...columns.flat()])
      if (owner.badge) this.#count(owner.badge, listDropped(owner).length, layout.hides(owner));
    this.#placeSelection(layout);
  }

  /**
   * @param {Layout} layout
   * @param {TreeNode} node
   */
  #place(layout, node) {
    for (const part of [node.box, node.line]) part.classList.toggle("away", Boolean(node.hidden));
    if (node.hidden) return;
    update(node.box, "transform", `translate(${node.x} ${node.y})`);
    update(node.line, "d", createLine(layout.groupOf(node), node, layout.rootWidth));
  }

  /**
   * Shade the column of a step.
   * @param {Layout} layout
   * @param {number} step
   */
  selectStep(layout, step) {
    this.layers[this.#selectedStep]?.name.classList.remove("on");
    this.#selectedStep = step;
    this.layers[step]?.name.classList.add("on");
    this.#placeSelection(layout);
  }

  /** @param {Layout} layout */
  #placeSelection({ edges, height }) {
    if (this.#selectedStep < 0) return;
    const [from, to] = edges.slice(this.#selectedStep, this.#selectedStep + 2);
    const place = { x: from - 8, width: to - from - COLUMN_GAP + 16, y: 0, height };
    for (const [name, value] of Object.entries(place)) update(this.now, name, String(value));
  }

  /**
   * @param {Layout} layout
   * @param {number} scale
   */
  resize({ width, height }, scale) {
    const size = {
      viewBox: `0 0 ${width} ${height}`,
      width: width * scale,
      height: height * scale,
    };
    setAttributes(this.node, size);
    this.node.classList.toggle("tiny", scale < MIN_TEXT_SCALE);
    if (this.ruler.firstElementChild) setAttributes(this.ruler.firstElementChild, { width });
  }

  /**
   * Keep the names of groups and steps in view while the tree scrolls.
   * @param {number} left
   * @param {number} top
   */
  pin(left, top) {
    this.labels.setAttribute("transform", `translate(${left} 0)`);
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
