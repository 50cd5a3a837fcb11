// The prefix tree of many draws. The width of a branch is its
// frequency; an outlined bar shows its exact probability.
import { svg } from "../shared/dom.mjs";
import { said } from "../shared/server_text.mjs";
import {
  formatCount,
  formatWholePercent,
  makeVisible,
  pluralText,
  quoteText,
} from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/**
 * A node of the tree: the text that its draws share, how often it was drawn, and its exact
 * probability. Kind is "root", "tokens", "pooled" or "missed".
 * @typedef {object} DrawnNode
 * @property {string} kind
 * @property {string} text
 * @property {number} count
 * @property {number} share
 * @property {number} probability
 * @property {DrawnNode[]} children
 */

/** @typedef {{ node: DrawnNode, depth: number, children: PlacedNode[], x: number, y: number, end: number }} PlacedNode */

/**
 * What the server sends of many draws. A row is a text, how often it was drawn, its share, its
 * exact probability, the expected count, its sigma, and the first seed.
 * @typedef {object} DrawsMessage
 * @property {"running" | "done" | "stopped" | "recorded" | "failed"} kind
 * @property {string} [error]
 * @property {number} draws
 * @property {number} wanted
 * @property {number} [seconds]
 * @property {number} [inexact] largest probability of a step that a server did not list and the filters keep
 * @property {number} distinct
 * @property {number} covered
 * @property {DrawnNode} tree
 * @property {[string, number, number, number, number, number, number][]} rows
 */

const FIRST_COLUMN = 84;
const MAX_COLUMN = 176;
const MIN_COLUMN = 76;
// Narrower columns show the two shares below each other.
const WIDE_COLUMN = 148;
const ROW_HEIGHT = 38;
const TALL_ROW_HEIGHT = 50;
const FULL_HEIGHT = 240;
const BAR_WIDTH = 7;
const TOP_MARGIN = 30;
const LETTER_WIDTH = 7.9;

/**
 * A name cut to its column's width. The title has all of it.
 * @param {string} text
 * @param {number} wide
 */
function shortenName(text, wide) {
  const room = Math.max(4, Math.floor((wide - 2 * BAR_WIDTH - 10) / LETTER_WIDTH));
  const shown = makeVisible(text).replace(/^ +/, (s) => "·".repeat(s.length));
  return shown.length > room ? `${shown.slice(0, room - 1)}…` : shown;
}

/**
 * Place a node and its children. A leaf gets a row high
 * enough for its label; a parent is centred on its children.
 * @drawing
 * @param {DrawnNode} node
 * @param {number} depth
 * @param {number} at
 * @param {number} total
 * @param {PlacedNode[]} into
 * @param {number} row
 * @returns {PlacedNode}
 */
function placeNode(node, depth, at, total, into, row) {
  const own = Math.max(row, FULL_HEIGHT * Math.max(node.count / total, node.probability) + 6);
  /** @type {PlacedNode[]} */
  const children = [];
  let end = at;
  for (const child of node.children) {
    const placed = placeNode(child, depth + 1, end, total, into, row);
    children.push(placed);
    end = placed.end;
  }
  const here = { node, depth, children, x: 0, y: 0, end: Math.max(end, at + own) };
  const middle = children.length
    ? (children[0].y + children[children.length - 1].y) / 2
    : (at + here.end) / 2;
  here.y = Math.max(middle, at + own / 2);
  into.push(here);
  return here;
}

/**
 * The band from a node to a child; its height is the child's frequency.
 * @drawing
 * @param {PlacedNode} parent
 * @param {PlacedNode} child
 * @param {number} offset
 * @param {number} total
 */
function createRibbon(parent, child, offset, total) {
  const wide = Math.max(1, (FULL_HEIGHT * child.node.count) / total);
  const x0 = parent.x + 2 * BAR_WIDTH + 4;
  const x1 = child.x;
  const middle = (x0 + x1) / 2;
  const a = parent.y - (FULL_HEIGHT * parent.node.count) / total / 2 + offset;
  const b = child.y - wide / 2;
  const there = `M${x0} ${a}C${middle} ${a} ${middle} ${b} ${x1} ${b}v${wide}`;
  const back = `C${middle} ${b + wide} ${middle} ${a + wide} ${x0} ${a + wide}Z`;
  return svg("path", { class: `pt-ribbon ${child.node.kind}`, d: there + back });
}

/**
 * Only nodes of kind "tokens" are the model's text; the others are the server's, to be translated.
 * @param {DrawnNode} node
 */
const nodeName = ({ kind, text }) => (kind === "tokens" ? text : said(text));

/**
 * @param {DrawnNode} node
 * @param {number} total
 */
function describeNode(node, total) {
  const text = nodeName(node);
  const values = {
    name: node.kind === "tokens" ? quoteText(makeVisible(text)) : text,
    drawn: node.count,
    n: formatCount(total),
    share: formatWholePercent(node.share),
    exact: formatWholePercent(node.probability),
  };
  return total === 1
    ? tr("{name}: drawn {drawn} of 1 time ({share}), exact probability {exact}", values)
    : tr("{name}: drawn {drawn} of {n} times ({share}), exact probability {exact}", values);
}

/** @param {number} total */
const drawCountText = (total) => pluralText(total, tr("1 draw"), tr("{n} draws"));

/**
 * The two bars of a node, for its frequency and its exact probability.
 * @drawing
 * @param {PlacedNode} placed
 * @param {number} total
 * @param {number} wide
 */
function createNode({ node, x, y, depth }, total, wide) {
  const real = (FULL_HEIGHT * node.count) / total;
  const exact = FULL_HEIGHT * node.probability;
  const share = node.count ? formatWholePercent(node.share) : "0 %";
  const exactly = tr("exact {share}", { share: formatWholePercent(node.probability) });
  const labels =
    node.kind === "root"
      ? [drawCountText(total)]
      : wide < WIDE_COLUMN
        ? [share, exactly]
        : [`${share} · ${exactly}`];
  const room = depth ? wide : FIRST_COLUMN;
  /**
   * @param {string} kind
   * @param {number} left
   * @param {number} high
   * @param {number} least
   */
  const bar = (kind, left, high, least) =>
    svg("rect", {
      class: kind,
      x: left,
      y: y - high / 2,
      width: BAR_WIDTH,
      height: Math.max(least, high),
    });
  /**
   * @param {string} kind
   * @param {number} top
   * @param {string} words
   */
  const text = (kind, top, words) =>
    svg("text", { class: kind, x: x + 2 * BAR_WIDTH + 8, y: top }, words);
  return svg(
    "g",
    { class: `pt-node ${node.kind}` },
    svg("title", {}, describeNode(node, total)),
    bar("pt-real", x, real, node.count ? 1.5 : 0),
    bar("pt-exact", x + BAR_WIDTH + 2, exact, 1),
    text("pt-word", y - 3, shortenName(nodeName(node), room)),
    ...labels.map((words, i) => text("pt-share", y + 12 + 12 * i, words)),
  );
}

/**
 * @param {DrawnNode} node
 * @returns {number}
 */
const computeDepth = ({ children }) => 1 + Math.max(0, ...children.map(computeDepth));

/**
 * Width of the columns, as large as the card allows.
 * @param {number} deepest
 * @param {number} room
 */
const chooseColumnWidth = (deepest, room) =>
  Math.max(MIN_COLUMN, Math.min(MAX_COLUMN, Math.floor((room - FIRST_COLUMN) / deepest)));

/**
 * @param {PlacedNode[]} all
 * @param {number} wide
 */
function placeColumns(all, wide) {
  const deepest = Math.max(...all.map((n) => n.depth));
  /** @param {number} depth */
  const left = (depth) => (depth ? FIRST_COLUMN + (depth - 1) * wide : 0);
  for (const placed of all) placed.x = left(placed.depth);
  return left(deepest + 1);
}

/**
 * @param {DrawsMessage} message
 * @param {number} room
 */
export function drawTree(message, room) {
  const total = message.draws;
  /** @type {PlacedNode[]} */
  const all = [];
  const wide = chooseColumnWidth(Math.max(1, computeDepth(message.tree) - 1), room);
  const row = wide < WIDE_COLUMN ? TALL_ROW_HEIGHT : ROW_HEIGHT;
  const top = placeNode(
    { ...message.tree, text: tr("prompt"), kind: "root" },
    0,
    TOP_MARGIN,
    total,
    all,
    row,
  );
  const width = placeColumns(all, wide);
  const height = top.end + 8;
  const node = svg("svg", {
    class: "pt-tree",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": tr("{draws}, {texts}; the table below says the same", {
      draws: drawCountText(total),
      texts: pluralText(message.distinct, tr("1 different text"), tr("{n} different texts")),
    }),
  });
  for (const parent of all) {
    let offset = 0;
    for (const child of parent.children) {
      if (child.node.count) node.append(createRibbon(parent, child, offset, total));
      offset += (FULL_HEIGHT * child.node.count) / total;
    }
  }
  for (const placed of all) node.append(createNode(placed, total, wide));
  return node;
}
