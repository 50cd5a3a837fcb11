// The nodes of a beam search by step and group.

/** @import { TreeGroup, TreeNode } from "./tree.d.ts" */

/**
 * Whether the search continued a node, or counted it as a finished text.
 * @param {TreeNode} node
 */
export const isContinued = ({ data }) => data.fate === "kept" || data.fate === "finished";

export class Forest {
  /** @type {Map<number, TreeNode>} */
  nodes = new Map();
  /** @type {TreeNode[][]} */
  columns = [];

  /** @param {Record<string, any>} config */
  constructor(config) {
    // The canvas adds the elements of groups and nodes, the layout their places.
    const create = (/** @type {number} */ number) =>
      /** @type {TreeGroup} */ ({
        number,
        column: -1,
        row: 0,
        children: /** @type {TreeNode[]} */ ([]),
      });
    this.groups = Array.from({ length: config.num_beam_groups || 1 }, (_, i) => create(i));
  }

  /**
   * Add the pool of the next step with its summary. Returns the new nodes, and the older nodes that
   * died out at this step.
   * @param {BeamNode[]} pool
   * @param {{ p: number[], model: (number | null)[], died: number[] }} shown
   */
  add(pool, { p, model, died }) {
    const column = this.columns.length;
    const fresh = pool.map((data, i) => this.#createNode(data, p[i], model[i], column));
    for (const node of fresh) this.#addNode(node);
    this.columns.push(fresh);
    return { fresh, dead: died.flatMap((id) => this.#markDead(id)) };
  }

  /**
   * @param {BeamNode} data
   * @param {number} p
   * @param {number | null} model
   * @param {number} column
   * @returns {TreeNode}
   */
  #createNode(data, p, model, column) {
    const parent = this.nodes.get(data.parent_id) || null;
    /** @type {TreeNode[]} */
    const children = [];
    return /** @type {TreeNode} */ ({ data, p, model, column, parent, children });
  }

  /** @param {TreeNode} node */
  #addNode(node) {
    this.nodes.set(node.data.node_id, node);
    (node.parent || this.groups[node.data.group]).children.push(node);
  }

  /** @param {number} id */
  #markDead(id) {
    const node = this.nodes.get(id);
    if (!node) return [];
    node.dead = true;
    return [node];
  }
}
