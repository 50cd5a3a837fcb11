// Keyboard navigation: the node that a key selects.

/** @import { Forest } from "./forest.mjs" */
/** @import { TreeNode } from "./tree.d.ts" */

/** @param {TreeNode[]} nodes */
const visibleNodes = (nodes) => nodes.filter((n) => !n.hidden);
/** @param {TreeNode[]} nodes */
const sortByHeight = (nodes) => visibleNodes(nodes).sort((a, b) => a.y - b.y);

/**
 * @param {Forest} forest
 * @param {TreeNode[]} best
 * @param {TreeNode} node
 * @param {string} key
 */
export function findNeighbour(forest, best, node, key) {
  const column = forest.columns[node.column];
  switch (key) {
    case "ArrowLeft":
      return node.parent;
    case "ArrowRight":
      return findFirstChild(best, node);
    case "ArrowUp":
    case "ArrowDown": {
      const all = sortByHeight(column);
      return all[all.indexOf(node) + (key === "ArrowUp" ? -1 : 1)];
    }
    case "PageUp":
    case "PageDown":
      return sortByHeight(column.filter((n) => n.data.group === node.data.group)).at(
        key === "PageUp" ? 0 : -1,
      );
    case "Home":
      return best[0];
    case "End":
      return best.at(-1);
    default:
      return null;
  }
}

/**
 * The child on the best path, else the child with the best rank.
 * @param {TreeNode[]} best
 * @param {TreeNode} node
 */
const findFirstChild = (best, node) =>
  visibleNodes(node.children).sort(
    (a, b) => Number(best.includes(b)) - Number(best.includes(a)) || a.data.rank - b.data.rank,
  )[0];
