
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
  /** Last step of the texts that continue it. */
  reach: number;
  /** Row within its group. */
  row: number;
  /** True if none of its continuations were kept later. */
  dead?: boolean;
  hidden?: boolean;
  /** Whether its dropped continuations are hidden; undefined: as in the whole tree. */
  fold?: boolean;
  /** Left edge of its word. */
  x: number;
  /** Upper edge of its box. */
  y: number;
  /** Its word as it is drawn, with the mark of its fate. */
  word: string;
  /** Width of the word in SVG units. */
  width: number;
  box: SVGGElement & { dpNode?: TreeNode };
  line: SVGPathElement;
  text: SVGTextElement;
  /** Number of its dropped continuations, if it has any. */
  badge?: Badge;
}

/** A group of beams, and the end of the prompt that all its texts continue. */
export interface TreeGroup {
  number: number;
  column: -1;
  row: number;
  /** Number of its rows. */
  rows: number;
  children: TreeNode[];
  top: number;
  fold?: boolean;
  /** Line above it, if there are several groups. */
  rule: SVGPathElement;
  /** Its name, which stays in view. */
  label: SVGTextElement;
  /** The end of the prompt. */
  box: SVGGElement;
  badge?: Badge;
}

export type Badge = SVGGElement & { dpOwner?: TreeOwner };

export type TreeOwner = TreeNode | TreeGroup;
