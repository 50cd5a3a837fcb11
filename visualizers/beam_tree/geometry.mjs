// Sizes and positions in the drawing of a beam tree, in SVG units, with one column per step.

export const COLUMN = 126;
export const ROW = 30;
export const WIDE = 94;
export const HIGH = 22;
export const GUTTER = 62;
export const LEFT = 160;
export const TOP = 28;
export const GAP = 16;
// Width of the prompt's box, which is narrower than a node.
export const PILL = WIDE - 26;

export const xOf = (node) => LEFT + node.column * COLUMN;

export const widthOf = (depth) => LEFT + depth * COLUMN - COLUMN + WIDE + 14;

// Height of a group: lanes, shelf and dropped rows, with a gap of 4 before the latter two.
export const heightOf = (group) =>
  (group.lanes + group.shelf + group.dropped) * ROW +
  (group.shelf ? 4 : 0) +
  (group.dropped ? 4 : 0) +
  GAP;

export function yOf(group, node) {
  if (node.slot === "lane") return group.top + node.index * ROW;
  const shelf = node.slot === "shelf" ? 0 : group.shelf;
  const row = group.lanes + shelf + node.index;
  return group.top + row * ROW + 4 + (node.slot === "drop" && group.shelf ? 4 : 0);
}

// Right end of the parent's box, or of the prompt's.
export const startOf = (group, node) =>
  node.parent
    ? [xOf(node.parent) + WIDE, node.parent.y + HIGH / 2]
    : [LEFT - COLUMN + WIDE, group.top + HIGH / 2];

export function curve(from, to) {
  const half = (to[0] - from[0]) / 2;
  return `M${from}C${[from[0] + half, from[1]]} ${[to[0] - half, to[1]]} ${to}`;
}
