import { el, svg, table } from "../shared/dom.mjs";
import { percent, visible } from "../shared/text.mjs";

const FIRST = 100,
  WIDEST = 176,
  NARROWEST = 148,
  ROW = 38,
  HIGH = 240,
  BAR = 7,
  TOP = 30,
  CHARS = 18;
const short = (text) => {
  const shown = visible(text).replace(/^ +/, (s) => "·".repeat(s.length));
  return shown.length > CHARS ? `${shown.slice(0, CHARS - 1)}…` : shown;
};

// Every leaf gets a row high enough for its label; a parent stands in the middle of its children.
function place(node, depth, at, total, into) {
  const own = Math.max(ROW, HIGH * Math.max(node.count / total, node.probability) + 6);
  const here = { node, depth, children: [] };
  let end = at;
  for (const child of node.children) {
    const placed = place(child, depth + 1, end, total, into);
    here.children.push(placed);
    end = placed.end;
  }
  here.end = Math.max(end, at + own);
  const first = here.children[0],
    last = here.children[here.children.length - 1];
  here.y = first ? (first.y + last.y) / 2 : (at + here.end) / 2;
  here.y = Math.max(here.y, at + own / 2);
  into.push(here);
  return here;
}
function ribbon(parent, child, offset, total) {
  const wide = Math.max(1, (HIGH * child.node.count) / total),
    x0 = parent.x + 2 * BAR + 4,
    x1 = child.x,
    middle = (x0 + x1) / 2;
  const a = parent.y - (HIGH * parent.node.count) / total / 2 + offset,
    b = child.y - wide / 2;
  const shape = `M${x0} ${a}C${middle} ${a} ${middle} ${b} ${x1} ${b}v${wide}C${middle} ${b + wide} ${middle} ${a + wide} ${x0} ${a + wide}Z`;
  return svg("path", { class: `pt-ribbon ${child.node.kind}`, d: shape });
}
function say(node, total) {
  return `${node.kind === "tokens" ? `“${visible(node.text)}”` : node.text}: drawn ${node.count} of ${total} times (${percent(node.count / total)}), exact probability ${percent(node.probability)}`;
}
function mark(placed, total) {
  const { node, x } = placed,
    real = (HIGH * node.count) / total,
    exact = HIGH * node.probability;
  return svg(
    "g",
    { class: `pt-node ${node.kind}` },
    svg("title", {}, say(node, total)),
    svg("rect", {
      class: "pt-real",
      x,
      y: placed.y - real / 2,
      width: BAR,
      height: Math.max(node.count ? 1.5 : 0, real),
    }),
    svg("rect", {
      class: "pt-exact",
      x: x + BAR + 2,
      y: placed.y - exact / 2,
      width: BAR,
      height: Math.max(1, exact),
    }),
    svg(
      "text",
      { class: "pt-word", x: x + 2 * BAR + 8, y: placed.y - 3 },
      node.kind === "tokens" ? short(node.text) : node.text,
    ),
    svg(
      "text",
      { class: "pt-share", x: x + 2 * BAR + 8, y: placed.y + 12 },
      node.kind === "root"
        ? `${total} draws`
        : `${node.count ? percent(node.count / total) : "0 %"} · exact ${percent(node.probability)}`,
    ),
  );
}
function picture(message, room) {
  const total = message.draws,
    all = [],
    root = { ...message.tree, text: "prompt", kind: "root" };
  const top = place(root, 0, TOP, total, all),
    deepest = Math.max(...all.map((n) => n.depth));
  // Columns are as wide as the card allows.
  const column = Math.max(NARROWEST, Math.min(WIDEST, (room - FIRST) / deepest)),
    left = (depth) => (depth ? FIRST + (depth - 1) * column : 0);
  for (const placed of all) placed.x = left(placed.depth);
  const wide = left(deepest + 1),
    high = top.end + 8;
  const picture = svg("svg", {
    class: "pt-tree",
    width: wide,
    height: high,
    viewBox: `0 0 ${wide} ${high}`,
    role: "img",
    "aria-label": `${total} draws, ${message.distinct} different texts; the table below says the same`,
  });
  for (const parent of all) {
    let offset = 0;
    for (const child of parent.children) {
      if (child.node.count) picture.append(ribbon(parent, child, offset, total));
      offset += (HIGH * child.node.count) / total;
    }
  }
  for (const placed of all) picture.append(mark(placed, total));
  return picture;
}
function tableWith(message) {
  const rows = message.rows.map((r) => [
    visible(r[0]),
    String(r[1]),
    percent(r[2]),
    percent(r[3]),
    `${r[4].toFixed(1)} ± ${r[5].toFixed(1)}`,
    String(r[6]),
  ]);
  return table(
    ["text", "times", "share", "exact probability", "expected times ± one sigma", "first seed"],
    rows,
  );
}

export let drawsId = "";
export const prefixTree = (root) => {
  const status = el("div", { class: "dp-status", role: "status", "aria-live": "polite" }),
    bar = el("progress", { max: 1, value: 0, "aria-label": "Draws done" });
  const facts = el("div", { class: "dp-costs" }),
    tree = el("div", {
      class: "dp-scroll pt-scroll",
      tabindex: 0,
      role: "region",
      "aria-label": "Tree of the draws",
    }),
    list = el("div", {});
  const legend = el(
    "div",
    { class: "dp-legend" },
    el("span", {}, el("i", { class: "pt-key real" }), "filled: how often it was drawn"),
    el("span", {}, el("i", { class: "pt-key exact" }), "outlined: its exact probability"),
  );
  const card = (title, ...inside) =>
    el("section", { class: "dp-card", "aria-label": title }, el("h3", {}, title), inside);
  const drawn = card("Tree of beginnings", facts, legend, tree),
    texts = card("Different texts, the most frequent first", list);
  const empty = el(
    "p",
    { class: "dp-empty" },
    "Press Draw: the texts of all seeds grow into a tree of their common beginnings, each branch as wide as it was frequent, beside the probability the model gave it.",
  );
  const first = el("section", { class: "dp-card" }, status, bar, empty);
  root.replaceChildren(first, drawn, texts);
  bar.hidden = drawn.hidden = texts.hidden = true;
  function receive(text) {
    if (!text) return;
    const message = JSON.parse(text);
    drawsId = message.id;
    status.className = `dp-status${message.kind === "failed" ? " bad" : ""}`;
    if (message.kind === "failed") {
      status.textContent = message.error;
      bar.hidden = true;
      return;
    }
    empty.hidden = true;
    bar.hidden = message.kind !== "running";
    bar.max = message.wanted;
    bar.value = message.draws;
    const words = {
      running: "Drawing… ",
      done: "Done: ",
      stopped: "Stopped, what was drawn is kept: ",
    };
    status.textContent = `${words[message.kind] + message.draws} of ${message.wanted} draws${message.seconds ? ` in ${message.seconds.toFixed(1)} s` : ""}`;
    drawn.hidden = texts.hidden = !message.draws;
    if (!message.draws) return;
    const fact = (name, value) => el("span", {}, `${name} `, el("b", {}, value));
    facts.replaceChildren(
      fact("draws", message.draws),
      fact("different texts", message.distinct),
      fact("probability they hold together", percent(message.covered)),
    );
    tree.replaceChildren(picture(message, tree.clientWidth));
    list.replaceChildren(
      tableWith(message),
      message.distinct > message.rows.length
        ? el(
            "p",
            { class: "dp-note" },
            `The ${message.rows.length} most frequent of ${message.distinct}.`,
          )
        : "",
    );
  }
  return { receive };
};
