// Positions of the nodes: lanes, shelf and dropped rows of each group, without folded candidates.
import {
  createCurve,
  GROUP_GAP,
  groupHeight,
  lineStart,
  NODE_HEIGHT,
  NODE_WIDTH,
  nodeX,
  nodeY,
  TREE_TOP,
} from "./geometry.mjs";

/** @import { Forest } from "./forest.mjs" */
/** @import { TreeNode, TreeOwner } from "./tree.d.ts" */

/** @param {TreeOwner} owner */
export const listDropped = (owner) => owner.children.filter((n) => n.slot === "drop");

export class Layout {
  mapPath = "";

  /**
   * @param {Forest} forest
   * @param {boolean} folded
   */
  constructor(forest, folded) {
    this.forest = forest;
    this.folded = folded;
  }

  /** @param {TreeNode} node */
  groupOf = (node) => this.forest.groups[node.data.group];

  /**
   * The owner of a candidate is the node it continues, or its group in the first step.
   * @param {TreeNode} node
   * @returns {TreeOwner}
   */
  ownerOf = (node) => node.parent || this.groupOf(node);

  /** @param {TreeOwner} owner */
  hides = (owner) => (owner.fold === undefined ? this.folded : owner.fold);

  /** @param {boolean} folded */
  foldAll(folded) {
    this.folded = folded;
    for (const node of this.forest.nodes.values()) delete node.fold;
    for (const group of this.forest.groups) delete group.fold;
  }

  /**
   * Give the visible dropped candidates of a step rows below the shelf of their group. Returns
   * whether a group needs more rows.
   * @param {TreeNode[]} column
   */
  pack(column) {
    const used = new Map();
    let grown = false;
    for (const node of column) {
      if (node.slot !== "drop") continue;
      const group = this.groupOf(node);
      node.hidden = this.hides(node.parent || group);
      if (node.hidden) continue;
      node.index = used.get(group) || 0;
      used.set(group, node.index + 1);
      if (node.index + 1 <= group.dropped) continue;
      group.dropped = node.index + 1;
      grown = true;
    }
    return grown;
  }

  /** @param {TreeNode} node */
  place(node) {
    const group = this.groupOf(node);
    node.y = node.hidden ? 0 : nodeY(group, node);
    node.box.classList.toggle("away", Boolean(node.hidden));
    node.line.classList.toggle("away", Boolean(node.hidden));
    if (node.hidden) return;
    node.box.setAttribute("transform", `translate(${nodeX(node)} ${node.y})`);
    const from = lineStart(group, node);
    const to = [nodeX(node), node.y + NODE_HEIGHT / 2];
    node.line.setAttribute("d", createCurve(from, to));
    if (node.slot !== "drop") this.mapPath += `M${from}L${to}l${NODE_WIDTH} 0`;
  }

  // Place all nodes again after folding, or after a group became higher.
  arrange() {
    for (const group of this.forest.groups) group.dropped = 0;
    for (const column of this.forest.columns) this.pack(column);
    this.#stackGroups();
    this.mapPath = "";
    for (const column of this.forest.columns)
      for (const node of column) {
        this.place(node);
        this.count(node);
      }
    for (const group of this.forest.groups) this.count(group);
  }

  // Place the groups below each other.
  #stackGroups() {
    let top = TREE_TOP;
    for (const group of this.forest.groups) {
      group.top = top;
      top += groupHeight(group);
    }
    this.forest.height = top - GROUP_GAP + 8;
  }

  /**
   * Update the badge of a node: the number of its dropped
   * continuations, and whether they are shown.
   * @param {TreeOwner} owner
   */
  count(owner) {
    if (!owner.badge) return;
    const hidden = this.hides(owner);
    const count = (hidden ? "+" : "−") + listDropped(owner).length;
    owner.badge.lastElementChild?.replaceChildren(count);
    owner.badge.classList.toggle("open", !hidden);
  }
}
