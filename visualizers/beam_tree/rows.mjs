// Rows of the texts of a group. The leading text is the straight first row. Every other text hangs
// below the word after which it differs, in the nearest row that is free as far as it goes.
import { isContinued } from "./forest.mjs";

/** @import { TreeGroup, TreeNode, TreeOwner } from "./tree.d.ts" */

/**
 * Set how far the texts after every node go.
 * @param {TreeNode[][]} columns
 */
export function measureReach(columns) {
  for (const column of columns) for (const node of column) node.reach = node.column;
  for (const column of columns.toReversed())
    for (const node of column)
      if (node.parent && isContinued(node))
        node.parent.reach = Math.max(node.parent.reach, node.reach);
}

export class Rows {
  // Row -> step -> whether a text has this place.
  /** @type {boolean[][]} */
  #taken = [];

  /** @param {TreeNode[]} best the leading text */
  constructor(best) {
    this.best = best;
  }

  /**
   * Give a row to every continued node, then to the visible dropped ones, which thus move nothing.
   * Returns the number of rows.
   * @param {TreeGroup} group
   * @param {TreeNode[][]} columns
   */
  pack(group, columns) {
    this.#placeText([group, ...this.#followText(this.#chooseMain(group))], 0);
    for (const column of columns)
      for (const node of column) {
        if (node.data.group !== group.number || isContinued(node) || node.hidden) continue;
        node.row = this.#findFree((node.parent || group).row + 1, node.column, node.column);
        this.#take(node.row, node.column, node.column);
      }
    return this.#taken.length;
  }

  /**
   * The continuation that stays in the row: the leading text, else the one that goes on longest.
   * @param {TreeOwner} owner
   */
  #chooseMain(owner) {
    /** @type {TreeNode | null} */
    let main = null;
    for (const node of owner.children) {
      if (!isContinued(node)) continue;
      if (this.best[node.column] === node) return node;
      if (!main || node.reach > main.reach) main = node;
    }
    return main;
  }

  /** @param {TreeNode | null} start */
  #followText(start) {
    const text = [];
    for (let at = start; at; at = this.#chooseMain(at)) text.push(at);
    return text;
  }

  /**
   * Place a text, then what hangs below it. Late branches come first, so that lines do not cross.
   * @param {TreeOwner[]} text
   * @param {number} row
   */
  #placeText(text, row) {
    this.#take(row, text[0].column, text[text.length - 1].column);
    for (const owner of text) owner.row = row;
    for (let i = text.length - 1; i >= 0; i--)
      for (const node of text[i].children) {
        if (!isContinued(node) || node === text[i + 1]) continue;
        const branch = this.#followText(node);
        const last = branch[branch.length - 1].column;
        this.#placeText(branch, this.#findFree(row + 1, node.column, last));
      }
  }

  /**
   * @param {number} row
   * @param {number} from
   * @param {number} to
   */
  #take(row, from, to) {
    this.#taken[row] ??= [];
    for (let i = Math.max(0, from); i <= to; i++) this.#taken[row][i] = true;
  }

  /**
   * The first row from a given one that is free between two steps.
   * @param {number} from
   * @param {number} first
   * @param {number} last
   */
  #findFree(from, first, last) {
    /** @param {boolean[]} row */
    const isFree = (row) => {
      for (let i = first; i <= last; i++) if (row[i]) return false;
      return true;
    };
    let row = from;
    while (this.#taken[row] && !isFree(this.#taken[row])) row++;
    return row;
  }
}
