
/** A candidate of a beam search in the drawing. */
export interface TreeNode {
  data: BeamNode;
  /** The probability that the search used. */
  p: number;
  /** The model's own probability, null if processors changed it. */
  model: number | null;
  /** Its step. */
  column: number;
  /** Null for a node of the first step. */
  parent: TreeNode | null;
  children: TreeNode[];
  slot: "" | "lane" | "shelf" | "drop";
  /** Row within the slot. */
  index: number;
  /** True if none of its continuations were kept later. */
  dead?: boolean;
  hidden?: boolean;
  /** Whether its dropped continuations are hidden; undefined: as in the whole tree. */
  fold?: boolean;
  y: number;
  box: SVGGElement & { dpNode?: TreeNode };
  line: SVGPathElement;
  text: SVGTextElement;
  /** Number of its dropped continuations, if it has any. */
  badge?: Badge;
}

/** A group of beams, and the prompt that it begins with. */
export interface TreeGroup {
  number: number;
  lanes: number;
  shelf: number;
  dropped: number;
  children: TreeNode[];
  top: number;
  fold?: boolean;
  band: SVGRectElement;
  /** Box of the prompt. */
  box: SVGGElement;
  badge?: Badge;
}

export type Badge = SVGGElement & { dpOwner?: TreeOwner };

export type TreeOwner = TreeNode | TreeGroup;
