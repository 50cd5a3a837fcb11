// The prefix tree of many draws. The width of a branch is its
// frequency; an outlined bar shows its exact probability.
import { svg } from "../shared/dom.mjs";
import { said } from "../shared/server_text.mjs";
import { counted, grouped, percent, visible } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

const FIRST = 84;
const WIDEST = 176;
const NARROWEST = 76;
// Narrower columns show the two shares below each other.
const SPACIOUS = 148;
const ROW = 38;
const HIGH_ROW = 50;
const HIGH = 240;
const BAR = 7;
const TOP = 30;
const LETTER = 7.9;

// A name cut to its column's width. The title has all of it.
function short(text, wide) {
  const room = Math.max(4, Math.floor((wide - 2 * BAR - 10) / LETTER));
  const shown = visible(text).replace(/^ +/, (s) => "·".repeat(s.length));
  return shown.length > room ? `${shown.slice(0, room - 1)}…` : shown;
}

/**
 * Place a node and its children. A leaf gets a row high
 * enough for its label; a parent is centred on its children.
 * @drawing
 */
function place(node, depth, at, total, into, row) {
  const own = Math.max(row, HIGH * Math.max(node.count / total, node.probability) + 6);
  const children = [];
  let end = at;
  for (const child of node.children) {
    const placed = place(child, depth + 1, end, total, into, row);
    children.push(placed);
    end = placed.end;
  }
  const here = { node, depth, children, x: 0, y: 0, end: Math.max(end, at + own) };
  const middle = children.length ? (children[0].y + children.at(-1).y) / 2 : (at + here.end) / 2;
  here.y = Math.max(middle, at + own / 2);
  into.push(here);
  return here;
}

/**
 * The band from a node to a child; its height is the child's frequency.
 * @drawing
 */
function ribbon(parent, child, offset, total) {
  const wide = Math.max(1, (HIGH * child.node.count) / total);
  const x0 = parent.x + 2 * BAR + 4;
  const x1 = child.x;
  const middle = (x0 + x1) / 2;
  const a = parent.y - (HIGH * parent.node.count) / total / 2 + offset;
  const b = child.y - wide / 2;
  const there = `M${x0} ${a}C${middle} ${a} ${middle} ${b} ${x1} ${b}v${wide}`;
  const back = `C${middle} ${b + wide} ${middle} ${a + wide} ${x0} ${a + wide}Z`;
  return svg("path", { class: `pt-ribbon ${child.node.kind}`, d: there + back });
}

// Only nodes of kind "tokens" are the model's text; the others are the server's, to be translated.
const nameOf = ({ kind, text }) => (kind === "tokens" ? text : said(text));

function say(node, total) {
  const text = nameOf(node);
  const values = {
    name: node.kind === "tokens" ? tr("“{text}”", { text: visible(text) }) : text,
    drawn: node.count,
    n: grouped(total),
    share: percent(node.share),
    exact: percent(node.probability),
  };
  return total === 1
    ? tr("{name}: drawn {drawn} of 1 time ({share}), exact probability {exact}", values)
    : tr("{name}: drawn {drawn} of {n} times ({share}), exact probability {exact}", values);
}

const drawsOf = (total) => counted(total, tr("1 draw"), tr("{n} draws"));

/**
 * The two bars of a node, for its frequency and its exact probability.
 * @drawing
 */
function mark({ node, x, y, depth }, total, wide) {
  const real = (HIGH * node.count) / total;
  const exact = HIGH * node.probability;
  const share = node.count ? percent(node.share) : "0 %";
  const exactly = tr("exact {share}", { share: percent(node.probability) });
  const labels =
    node.kind === "root"
      ? [drawsOf(total)]
      : wide < SPACIOUS
        ? [share, exactly]
        : [`${share} · ${exactly}`];
  const room = depth ? wide : FIRST;
  const bar = (kind, left, high, least) =>
    svg("rect", {
      class: kind,
      x: left,
      y: y - high / 2,
      width: BAR,
      height: Math.max(least, high),
    });
  const text = (kind, top, words) =>
    svg("text", { class: kind, x: x + 2 * BAR + 8, y: top }, words);
  return svg(
    "g",
    { class: `pt-node ${node.kind}` },
    svg("title", {}, say(node, total)),
    bar("pt-real", x, real, node.count ? 1.5 : 0),
    bar("pt-exact", x + BAR + 2, exact, 1),
    text("pt-word", y - 3, short(nameOf(node), room)),
    ...labels.map((words, i) => text("pt-share", y + 12 + 12 * i, words)),
  );
}

const depthOf = ({ children }) => 1 + Math.max(0, ...children.map(depthOf));

// Width of the columns, as large as the card allows.
const wideFor = (deepest, room) =>
  Math.max(NARROWEST, Math.min(WIDEST, Math.floor((room - FIRST) / deepest)));

function columns(all, wide) {
  const deepest = Math.max(...all.map((n) => n.depth));
  const left = (depth) => (depth ? FIRST + (depth - 1) * wide : 0);
  for (const placed of all) placed.x = left(placed.depth);
  return left(deepest + 1);
}

export function picture(message, room) {
  const total = message.draws;
  const all = [];
  const wide = wideFor(Math.max(1, depthOf(message.tree) - 1), room);
  const row = wide < SPACIOUS ? HIGH_ROW : ROW;
  const top = place({ ...message.tree, text: tr("prompt"), kind: "root" }, 0, TOP, total, all, row);
  const width = columns(all, wide);
  const height = top.end + 8;
  const node = svg("svg", {
    class: "pt-tree",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": tr("{draws}, {texts}; the table below says the same", {
      draws: drawsOf(total),
      texts: counted(message.distinct, tr("1 different text"), tr("{n} different texts")),
    }),
  });
  for (const parent of all) {
    let offset = 0;
    for (const child of parent.children) {
      if (child.node.count) node.append(ribbon(parent, child, offset, total));
      offset += (HIGH * child.node.count) / total;
    }
  }
  for (const placed of all) node.append(mark(placed, total, wide));
  return node;
}
