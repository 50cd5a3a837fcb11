// Sizes in the drawing of a beam tree, in SVG units, and its curves.

import { isContinued } from "./forest.mjs";

/** @import { TreeGroup, TreeNode } from "./tree.d.ts" */

export const FONT_SIZE = 18;
export const ROW_HEIGHT = 40;
export const NODE_HEIGHT = 36;
/** Room between the words of two steps, for the lines. */
export const COLUMN_GAP = 20;
/** Room between a word and its lines. */
export const LINE_GAP = 4;
/** Height of the step numbers. */
export const TREE_TOP = 26;
/** Height of the name above a group. */
export const LABEL_HEIGHT = 26;
const MIN_COLUMN = 16;

/** @param {number} widest width of the widest word of a step */
export const columnWidth = (widest) => Math.max(MIN_COLUMN, widest) + COLUMN_GAP;

/**
 * Width of the line to a word: the more probable, the thicker.
 * @drawing
 * @param {number} p
 * @param {boolean} best whether it belongs to the leading text
 */
export const lineWidth = (p, best) => Math.max(best ? 3 : 0, Math.round(10 * (1 + 4 * p)) / 10);

/** @param {{ y: number }} node */
export const middle = ({ y }) => y + NODE_HEIGHT / 2;

/**
 * The curve from the end of the parent's word, or of the prompt's, to a node.
 * @param {TreeGroup} group
 * @param {TreeNode} node
 * @param {number} rootWidth
 */
export function createLine(group, { parent, x, y }, rootWidth) {
  const from = parent ? parent.x + parent.width + LINE_GAP : rootWidth + LINE_GAP;
  const [start, end] = [middle(parent ?? { y: group.top }), middle({ y })];
  const to = x - LINE_GAP;
  const half = (to - from) / 2;
  return `M${from} ${start}C${from + half} ${start} ${to - half} ${end} ${to} ${end}`;
}

/**
 * The path of a text through its words.
 * @param {TreeNode[]} nodes
 */
export const tracePath = (nodes) =>
  nodes.map((node, i) => `${i ? "L" : "M"}${node.x} ${middle(node)}h${node.width}`).join("");

/**
 * The lines of all texts, without the dropped words.
 * @param {TreeNode[][]} columns
 */
export function traceTexts(columns) {
  let path = "";
  for (const column of columns)
    for (const node of column) {
      if (!isContinued(node)) continue;
      const { parent } = node;
      path += parent ? `M${parent.x + parent.width} ${middle(parent)}L` : "M";
      path += `${node.x} ${middle(node)}h${node.width}`;
    }
  return path;
}
