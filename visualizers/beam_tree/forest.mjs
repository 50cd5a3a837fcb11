// The place of every node of a beam search.

// The nodes of a run by step. Every group has lanes for the texts that go on, a shelf for texts that
// end while others go on, and rows for what was dropped: no two nodes of a step share a place.
export function forestOf(run) {
  const nodes = new Map(),
    columns = [],
    roots = [];
  const count = run.config.num_beam_groups || 1,
    lanes = Math.max(1, Math.floor(run.config.num_beams / count));
  const groups = Array.from({ length: count }, (_, number) => ({
    number,
    lanes,
    shelf: 0,
    dropped: 0,
    children: [],
  }));
  const lively = (node) => node.data.fate === "kept" || node.data.fate === "finished";

  // The best child stays in the lane of its parent; the others take the nearest lane that is free.
  function lanesOf(members) {
    const free = new Set(Array.from({ length: lanes }, (_, i) => i)),
      wanted = (node) => (node.parent ? node.parent.index : 0);
    const take = (node, lane) => {
      node.slot = "lane";
      node.index = lane;
      free.delete(lane);
    };
    for (const fate of ["kept", "finished"]) {
      const later = members
        .filter((n) => n.data.fate === fate)
        .filter((n) => {
          if (!free.has(wanted(n))) return true;
          take(n, wanted(n));
          return false;
        });
      for (const node of later) {
        const near = [...free].sort(
          (a, b) => Math.abs(a - wanted(node)) - Math.abs(b - wanted(node)),
        )[0];
        if (near !== undefined) take(node, near);
      }
    }
  }
  function add(pool) {
    const column = columns.length,
      fresh = pool.map((data) => ({
        data,
        column,
        parent: nodes.get(data.parent_id) || null,
        children: [],
        live: 0,
        slot: "",
        index: 0,
      }));
    for (const node of fresh) {
      nodes.set(node.data.node_id, node);
      (node.parent || groups[node.data.group]).children.push(node);
      if (!node.parent) roots.push(node);
      if (node.parent && lively(node)) node.parent.live++;
    }
    columns.push(fresh);
    let moved = false;
    for (const group of groups) {
      const members = fresh.filter((n) => n.data.group === group.number);
      if (!members.length) continue;
      lanesOf(members);
      const shelf = members.filter((n) => !n.slot && n.data.fate === "finished"),
        rest = members.filter((n) => !n.slot && n.data.fate !== "finished");
      shelf.forEach((n, i) => {
        n.slot = "shelf";
        n.index = i;
      });
      rest.forEach((n) => {
        n.slot = "drop";
      });
      if (shelf.length > group.shelf) {
        group.shelf = shelf.length;
        moved = true;
      }
    }
    return { fresh, moved, dead: column ? fade(column - 1, fresh) : [] };
  }
  // Kept texts none of whose continuations were kept have died out, and so may their ancestors.
  function fade(column, fresh) {
    const present = new Set(fresh.map((n) => n.data.group)),
      dead = [];
    for (let node of columns[column]) {
      if (node.data.fate !== "kept" || !present.has(node.data.group)) continue;
      while (node && !node.live && !node.dead) {
        node.dead = true;
        dead.push(node);
        node = node.parent;
        if (node) node.live--;
      }
    }
    return dead;
  }
  // Greedy search's path as far as the pools hold it.
  function follow(ids) {
    let longest = [];
    for (const root of groups) {
      const found = [];
      for (let at = root, i = 0; at && i < ids.length; i++) {
        at = at.children.find((n) => n.data.token_id === ids[i]);
        if (at) found.push(at);
      }
      if (found.length > longest.length) longest = found;
    }
    return longest;
  }
  // The winner; before the end the leader of the last pool, or a finished text that beats it.
  function best(detail) {
    const kept = detail.pool.filter((d) => d.fate === "kept"),
      leader = (kept.length ? kept : detail.pool).reduce((a, b) =>
        a.sum_logprobs >= b.sum_logprobs ? a : b,
      ),
      top = detail.heap[0];
    return nodes.get(
      detail.winner_node_id ?? (top && top.score >= leader.score ? top.node_id : leader.node_id),
    );
  }
  return { nodes, columns, groups, add, follow, best };
}
