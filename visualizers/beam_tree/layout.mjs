// Places of the nodes: rows by group, and columns as wide as their visible words.

import { isContinued } from "./forest.mjs";
import { COLUMN_GAP, columnWidth, LABEL_HEIGHT, ROW_HEIGHT, TREE_TOP } from "./geometry.mjs";
import { measureReach, Rows } from "./rows.mjs";

/** @import { Forest } from "./forest.mjs" */
/** @import { TreeNode, TreeOwner } from "./tree.d.ts" */

/** @param {TreeOwner} owner */
export const listDropped = (owner) => owner.children.filter((node) => !isContinued(node));

export class Layout {
  folded = true;
  /** Width of the prompt's end. */
  rootWidth = 0;
  /** @type {number[]} left edge of every step, and the right edge of the last one */
  edges = [];
  height = 0;

  /** @param {Forest} forest */
  constructor(forest) {
    this.forest = forest;
  }

  get width() {
    return this.edges.at(-1) ?? 0;
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
  hides = (owner) => owner.fold ?? this.folded;

  /** @param {boolean} folded */
  foldAll(folded) {
    this.folded = folded;
    for (const node of this.forest.nodes.values()) delete node.fold;
    for (const group of this.forest.groups) delete group.fold;
  }

  /**
   * Place all nodes.
   * @param {TreeNode[]} best the leading text
   */
  arrange(best) {
    const { columns, groups } = this.forest;
    for (const node of this.forest.nodes.values())
      node.hidden = !isContinued(node) && this.hides(this.ownerOf(node));
    measureReach(columns);
    const top = groups.length > 1 ? LABEL_HEIGHT : 0;
    this.height = TREE_TOP;
    for (const group of groups) {
      group.rows = new Rows(best).pack(group, columns);
      group.top = this.height + top;
      this.height = group.top + group.rows * ROW_HEIGHT;
    }
    this.#placeColumns();
  }

  #placeColumns() {
    this.edges = [this.rootWidth + COLUMN_GAP];
    for (const column of this.forest.columns) {
      let widest = 0;
      for (const node of column) {
        if (node.hidden) continue;
        node.x = this.width;
        node.y = this.groupOf(node).top + node.row * ROW_HEIGHT;
        widest = Math.max(widest, node.width);
      }
      this.edges.push(this.width + columnWidth(widest));
    }
  }

  /**
   * The first and the last step between two places.
   * @param {number} left
   * @param {number} right
   */
  stepsBetween(left, right) {
    const first = this.edges.findLastIndex((edge) => edge <= left);
    const last = this.edges.findLastIndex((edge) => edge <= right);
    return [Math.max(0, first), last];
  }
}
