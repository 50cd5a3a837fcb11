// The nodes of a run by step. Every group has lanes for the texts that go on, a shelf for texts that
// end while others go on, and rows for what was dropped: no two nodes of a step share a place.

const isLively = (node) => node.data.fate === "kept" || node.data.fate === "finished";

export class Forest {
  nodes = new Map();
  columns = [];
  height = 0;

  constructor(config) {
    const count = config.num_beam_groups || 1;
    this.lanes = Math.max(1, Math.floor(config.num_beams / count));
    this.groups = Array.from({ length: count }, (_, number) => ({
      number,
      lanes: this.lanes,
      shelf: 0,
      dropped: 0,
      children: [],
    }));
  }

  // Take the pool of the next step. Returns its nodes, the older ones that have died out by it, and
  // whether a shelf has become higher.
  add(pool) {
    const column = this.columns.length;
    const fresh = pool.map((data) => this.#node(data, column));
    for (const node of fresh) this.#join(node);
    this.columns.push(fresh);
    let moved = false;
    for (const group of this.groups) {
      const members = fresh.filter((n) => n.data.group === group.number);
      if (members.length && this.#seat(group, members)) moved = true;
    }
    return { fresh, moved, dead: column ? this.#fade(column - 1, fresh) : [] };
  }

  #node(data, column) {
    const parent = this.nodes.get(data.parent_id) || null;
    return { data, column, parent, children: [], live: 0, slot: "", index: 0 };
  }

  #join(node) {
    this.nodes.set(node.data.node_id, node);
    (node.parent || this.groups[node.data.group]).children.push(node);
    if (node.parent && isLively(node)) node.parent.live++;
  }

  #seat(group, members) {
    this.#giveLanes(members);
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

  // The best child stays in the lane of its parent; the others take the nearest lane that is free.
  #giveLanes(members) {
    const free = new Set(Array.from({ length: this.lanes }, (_, i) => i));
    const wanted = (node) => (node.parent ? node.parent.index : 0);
    const take = (node, lane) => {
      node.slot = "lane";
      node.index = lane;
      free.delete(lane);
    };
    for (const fate of ["kept", "finished"]) {
      const later = [];
      for (const node of members.filter((n) => n.data.fate === fate)) {
        if (free.has(wanted(node))) take(node, wanted(node));
        else later.push(node);
      }
      for (const node of later) {
        const far = (lane) => Math.abs(lane - wanted(node));
        const [near] = [...free].sort((a, b) => far(a) - far(b));
        if (near !== undefined) take(node, near);
      }
    }
  }

  // Kept texts none of whose continuations were kept have died out, and so may their ancestors.
  #fade(column, fresh) {
    const present = new Set(fresh.map((n) => n.data.group));
    const dead = [];
    for (const last of this.columns[column]) {
      if (last.data.fate !== "kept" || !present.has(last.data.group)) continue;
      for (let node = last; node && !node.live && !node.dead; ) {
        node.dead = true;
        dead.push(node);
        node = node.parent;
        if (node) node.live--;
      }
    }
    return dead;
  }

  // Greedy search's path as far as the pools hold it.
  follow(ids) {
    let longest = [];
    for (const root of this.groups) {
      const found = [];
      for (let at = root; at && found.length < ids.length; ) {
        const wanted = ids[found.length];
        at = at.children.find((n) => n.data.token_id === wanted);
        if (at) found.push(at);
      }
      if (found.length > longest.length) longest = found;
    }
    return longest;
  }

  // The winner; before the end the leader of the last pool, or a finished text that beats it.
  best(detail) {
    const kept = detail.pool.filter((d) => d.fate === "kept");
    const leader = (kept.length ? kept : detail.pool).reduce((a, b) =>
      a.sum_logprobs >= b.sum_logprobs ? a : b,
    );
    const top = detail.heap[0];
    const ahead = top && top.score >= leader.score ? top : leader;
    return this.nodes.get(detail.winner_node_id ?? ahead.node_id);
  }
}
