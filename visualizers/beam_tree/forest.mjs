// The nodes of a beam search by step. Every group has lanes for open texts, shelf rows for finished
// texts and rows for dropped candidates, so that no two nodes of a step overlap.

/** @import { TreeGroup, TreeNode } from "./tree.d.ts" */

export class Forest {
  /** @type {Map<number, TreeNode>} */
  nodes = new Map();
  /** @type {TreeNode[][]} */
  columns = [];
  height = 0;

  /** @param {Record<string, any>} config */
  constructor(config) {
    const count = config.num_beam_groups || 1;
    this.lanes = Math.max(1, Math.floor((config.num_beams || 1) / count));
    // The canvas adds the elements of groups and nodes.
    const create = (/** @type {number} */ number) =>
      /** @type {TreeGroup} */ ({
        number,
        lanes: this.lanes,
        shelf: 0,
        dropped: 0,
        children: /** @type {TreeNode[]} */ ([]),
      });
    this.groups = Array.from({ length: count }, (_, number) => create(number));
  }

  /**
   * Add the pool of the next step with its summary. Returns the new nodes, the older nodes that
   * died out at this step, and whether a group needs more shelf rows.
   * @param {BeamNode[]} pool
   * @param {{ p: number[], model: (number | null)[], died: number[] }} shown
   */
  add(pool, { p, model, died }) {
    const column = this.columns.length;
    const fresh = pool.map((data, i) => this.#createNode(data, p[i], model[i], column));
    for (const node of fresh) this.#addNode(node);
    this.columns.push(fresh);
    let moved = false;
    for (const group of this.groups) {
      const members = fresh.filter((n) => n.data.group === group.number);
      if (members.length && this.#assignSlots(group, members)) moved = true;
    }
    return { fresh, moved, dead: died.flatMap((id) => this.#markDead(id)) };
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
    const place = { slot: /** @type {const} */ (""), index: 0 };
    return /** @type {TreeNode} */ ({ data, p, model, column, parent, children, ...place });
  }

  /** @param {TreeNode} node */
  #addNode(node) {
    this.nodes.set(node.data.node_id, node);
    (node.parent || this.groups[node.data.group]).children.push(node);
  }

  /**
   * @param {TreeGroup} group
   * @param {TreeNode[]} members
   */
  #assignSlots(group, members) {
    this.#assignLanes(members);
    const left = members.filter((n) => !n.slot);
    const shelf = left.filter((n) => n.data.fate === "finished");
    shelf.forEach((node, i) => {
      node.slot = "shelf";
      node.index = i;
    });
    for (const node of left) if (!node.slot) node.slot = "drop";
    if (shelf.length <= group.shelf) return false;
    group.shelf = shelf.length;
    return true;
  }

  /**
   * The best child stays in the lane of its parent; the others take the nearest free lane.
   * @param {TreeNode[]} members
   */
  #assignLanes(members) {
    const free = new Set(Array.from({ length: this.lanes }, (_, i) => i));
    /** @param {TreeNode} node */
    const wanted = (node) => (node.parent ? node.parent.index : 0);
    /**
     * @param {TreeNode} node
     * @param {number} lane
     */
    const take = (node, lane) => {
      node.slot = "lane";
      node.index = lane;
      free.delete(lane);
    };
    for (const fate of ["kept", "finished"]) {
      /** @type {TreeNode[]} */
      const later = [];
      for (const node of members.filter((n) => n.data.fate === fate)) {
        if (free.has(wanted(node))) take(node, wanted(node));
        else later.push(node);
      }
      for (const node of later) {
        /** @param {number} lane */
        const far = (lane) => Math.abs(lane - wanted(node));
        const [near] = [...free].sort((a, b) => far(a) - far(b));
        if (near !== undefined) take(node, near);
      }
    }
  }

  /** @param {number} id */
  #markDead(id) {
    const node = this.nodes.get(id);
    if (!node) return [];
    node.dead = true;
    return [node];
  }
}
