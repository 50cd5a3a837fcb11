// Keyboard navigation: the node that a key selects.

const shown = (nodes) => nodes.filter((n) => !n.hidden);
const byHeight = (nodes) => shown(nodes).sort((a, b) => a.y - b.y);

export function neighbour(forest, best, node, key) {
  const column = forest.columns[node.column];
  switch (key) {
    case "ArrowLeft":
      return node.parent;
    case "ArrowRight":
      return firstChild(best, node);
    case "ArrowUp":
    case "ArrowDown": {
      const all = byHeight(column);
      return all[all.indexOf(node) + (key === "ArrowUp" ? -1 : 1)];
    }
    case "PageUp":
    case "PageDown":
      return byHeight(column.filter((n) => n.data.group === node.data.group)).at(
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

// The child on the best path, else the child with the best rank.
const firstChild = (best, node) =>
  shown(node.children).sort(
    (a, b) => Number(best.includes(b)) - Number(best.includes(a)) || a.data.rank - b.data.rank,
  )[0];
