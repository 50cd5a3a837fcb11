// Sizes and positions in the drawing of a beam tree, in SVG units, with one column per step.

/** @import { TreeGroup, TreeNode } from "./tree.d.ts" */

export const COLUMN_WIDTH = 126;
export const ROW_HEIGHT = 30;
export const NODE_WIDTH = 94;
export const NODE_HEIGHT = 22;
export const GUTTER_WIDTH = 62;
export const TREE_LEFT = 160;
export const TREE_TOP = 28;
export const GROUP_GAP = 16;
// Width of the prompt's box, which is narrower than a node.
export const PILL_WIDTH = NODE_WIDTH - 26;

/** @param {TreeNode} node */
export const nodeX = (node) => TREE_LEFT + node.column * COLUMN_WIDTH;

/** @param {number} depth */
export const treeWidth = (depth) =>
  TREE_LEFT + depth * COLUMN_WIDTH - COLUMN_WIDTH + NODE_WIDTH + 14;

/**
 * Height of a group: lanes, shelf and dropped rows, with a gap of 4 before the latter two.
 * @param {TreeGroup} group
 */
export const groupHeight = (group) =>
  (group.lanes + group.shelf + group.dropped) * ROW_HEIGHT +
  (group.shelf ? 4 : 0) +
  (group.dropped ? 4 : 0) +
  GROUP_GAP;

/**
 * @param {TreeGroup} group
 * @param {TreeNode} node
 */
export function nodeY(group, node) {
  if (node.slot === "lane") return group.top + node.index * ROW_HEIGHT;
  const shelf = node.slot === "shelf" ? 0 : group.shelf;
  const row = group.lanes + shelf + node.index;
  return group.top + row * ROW_HEIGHT + 4 + (node.slot === "drop" && group.shelf ? 4 : 0);
}

/**
 * Right end of the parent's box, or of the prompt's.
 * @param {TreeGroup} group
 * @param {TreeNode} node
 */
export const lineStart = (group, node) =>
  node.parent
    ? [nodeX(node.parent) + NODE_WIDTH, node.parent.y + NODE_HEIGHT / 2]
    : [TREE_LEFT - COLUMN_WIDTH + NODE_WIDTH, group.top + NODE_HEIGHT / 2];

/**
 * @param {number[]} from
 * @param {number[]} to
 */
export function createCurve(from, to) {
  const half = (to[0] - from[0]) / 2;
  return `M${from}C${[from[0] + half, from[1]]} ${[to[0] - half, to[1]]} ${to}`;
}
