// The tree a beam search walked: every candidate of every step, drawn as it was decided and never re-derived.
import { el, svg } from "../shared/dom.mjs";
import { piece, prob } from "../shared/text.mjs";
import { forestOf } from "./forest.mjs";
import { factsOf, greedyOf, poolOf, stateOf, tableOfNodes } from "./info.mjs";
import { saveTree, treePicture } from "./picture.mjs";
import { describe, MARK, pathTo, scoreOf, short, textTo } from "./words.mjs";

const COLUMN = 126,
  ROW = 30,
  WIDE = 94,
  HIGH = 22,
  GUTTER = 62,
  LEFT = 160,
  TOP = 28,
  GAP = 16,
  SMALL = 0.5,
  FAR = 3;
const ghostly = (node) => node.data.fate !== "kept" && node.data.fate !== "finished";

export const beamTree = {
  title: "Beam tree",
  empty:
    "Every candidate of every step as a tree that grows while the search runs: what was kept, what was dropped and why, which texts finished, and the winner.",
  wide: true,
  mount(root, ctx) {
    const back = svg("g", {}),
      frame = svg("g", {}),
      boxes = svg("g", { class: "bt-boxes" }),
      ruler = svg("g", { class: "bt-pin bt-ruler" }),
      gutter = svg("g", { class: "bt-pin bt-gutter" });
    const now = svg("rect", { class: "bt-now", rx: 6 });
    const canvas = svg(
      "svg",
      {
        class: "bt-svg",
        role: "group",
        "aria-label":
          "Beam tree. Arrow keys go from node to node, f folds the dropped candidates of a node.",
      },
      back,
      frame,
      boxes,
      ruler,
      gutter,
    );
    const scroll = el("div", { class: "bt-scroll" }, canvas),
      tip = el("div", { class: "bt-tip", role: "tooltip", hidden: true });
    const mapLines = svg("path", { class: "bt-map-kept" }),
      mapBest = svg("path", { class: "bt-map-best" }),
      map = svg("svg", { class: "bt-map-svg", preserveAspectRatio: "none" }, mapLines, mapBest);
    const lens = el("div", { class: "bt-lens" }),
      overview = el(
        "div",
        { class: "bt-map", "aria-hidden": "true", title: "The whole tree: drag to move" },
        map,
        lens,
      );
    const headline = el("p", { class: "bt-head" }),
      facts = el("div", { class: "bt-facts" }),
      state = el("div", { class: "bt-state" }),
      pool = el("div", { class: "bt-pool-box" }),
      greedy = el("div", { class: "bt-greedy" });
    const tableBox = el("div", {}),
      more = el(
        "details",
        {
          class: "bt-more",
          ontoggle: () => {
            if (more.open && run) table.grow(run);
          },
        },
        el("summary", {}, "Table of every candidate"),
        tableBox,
      );
    const button = (text, title, act, pressed) =>
      el(
        "button",
        {
          type: "button",
          class: "dp-btn",
          title,
          "aria-label": title,
          "aria-pressed": pressed,
          onclick: act,
        },
        text,
      );
    const fold = button(
      "Hide dropped",
      "Hide or show the dropped candidates",
      () => {
        folded = !folded;
        for (const node of forest.nodes.values()) delete node.fold;
        for (const g of forest.groups) delete g.fold;
        arrange();
      },
      "false",
    );
    const follow = button(
      "Follow",
      "Keep the latest step in view",
      () => setFollow(!following),
      "true",
    );
    const tools = el(
      "div",
      { class: "dp-row bt-tools" },
      fold,
      follow,
      el(
        "span",
        { class: "bt-set" },
        button("−", "Zoom out", () => zoom(1 / 1.25)),
        button("+", "Zoom in", () => zoom(1.25)),
        button("Fit", "Fit the whole tree", fit),
      ),
      button("Full screen", "Show the tree on the whole screen", () =>
        document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen(),
      ),
      el(
        "span",
        { class: "bt-set" },
        button("SVG", "Download as SVG", () => save("svg")),
        button("PNG", "Download as PNG", () => save("png")),
      ),
    );
    const key = (kind, text) => el("span", { class: `bt-key ${kind}` }, text);
    const legend = el(
      "div",
      { class: "dp-legend bt-legend" },
      key("best", "★ best text"),
      key("kept", "kept"),
      key("dead", "kept, died out later"),
      key("ghost", "dropped"),
      key("done", "■ finished"),
      key("ghost", "□ finished, but worse"),
      key("ghost", "⊘ ended, not counted"),
      key("greedy", "G greedy path"),
    );
    root.classList.add("bt-root", "dp-own-picture");
    root.dpPicture = () => forest && treePicture(run, canvas, width(), forest.height);
    root.append(
      headline,
      tools,
      el("div", { class: "bt-wrap" }, scroll, tip),
      overview,
      legend,
      el("div", { class: "bt-below" }, el("div", {}, facts, greedy), state, pool),
      more,
    );
    let run = null,
      forest = null,
      depth,
      layers,
      best,
      chosen,
      tabbed,
      following,
      table,
      mapPath,
      shownState,
      seen,
      ended;
    let folded = innerWidth < 700,
      scale = innerWidth < 700 ? 0.9 : 1,
      poolOpen = null,
      hand = 0,
      near = [0, -1];

    function reset() {
      forest = null;
      depth = 0;
      layers = [];
      best = [];
      chosen = tabbed = null;
      following = true;
      mapPath = "";
      shownState = "";
      seen = -1;
      ended = false;
      for (const part of [
        back,
        frame,
        boxes,
        ruler,
        gutter,
        facts,
        state,
        pool,
        greedy,
        tableBox,
        headline,
      ])
        part.replaceChildren();
      mapLines.removeAttribute("d");
      mapBest.removeAttribute("d");
      near = [0, -1];
      tip.hidden = true;
      canvas.classList.remove("ended");
      mark(follow, true);
    }
    const mark = (control, on) => control.setAttribute("aria-pressed", String(on));
    function begin() {
      forest = forestOf(run);
      table = tableOfNodes(forest.columns);
      tableBox.replaceChildren(table.box);
      ruler.append(svg("rect", { class: "bt-cover", x: 0, y: 0, height: TOP - 6 }));
      for (const group of forest.groups) {
        group.band = svg("rect", { class: "bt-band", x: GUTTER, rx: 8 });
        group.pill = svg(
          "g",
          { class: "bt-root-node" },
          svg("rect", { class: "bt-rect", width: WIDE - 26, height: HIGH, rx: 11 }),
          svg("text", { x: (WIDE - 26) / 2, y: 15, "text-anchor": "middle" }, "prompt"),
        );
        back.append(group.band);
        frame.append(group.pill);
      }
      back.append(now);
    }

    // Drawing: one layer a step, added once; a node is moved only when a group needs more rows.
    function draw(node, layer) {
      const d = node.data,
        ghost = ghostly(node) ? " ghost" : "";
      node.line = svg("path", { class: `bt-line ${d.fate}${ghost}`, fill: "none" });
      node.text = svg("text", { x: 9, y: 15 });
      label(node);
      node.box = svg(
        "g",
        {
          class: `bt-node new ${d.fate}${ghost}`,
          role: "button",
          tabindex: -1,
          "aria-label": describe(run, node),
        },
        svg("rect", { class: "bt-rect", width: WIDE, height: HIGH, rx: 6 }),
        svg("rect", {
          class: "bt-prob",
          x: 5,
          y: HIGH - 4,
          height: 2.5,
          rx: 1,
          width: Math.max(1, (WIDE - 10) * prob(d.logprob)),
        }),
        node.text,
      );
      if (d.diversity_penalty > 0)
        node.box.append(
          svg(
            "text",
            { class: "bt-charge", x: WIDE - 5, y: 10, "text-anchor": "end" },
            `−${+d.diversity_penalty.toFixed(2)}`,
          ),
        );
      node.box.dpNode = node;
      layer.lines.append(node.line);
      layer.nodes.append(node.box);
      if (node.slot === "drop") badge(node.parent || forest.groups[d.group]);
    }
    function badge(owner) {
      if (owner.badge) return;
      owner.badge = svg(
        "g",
        {
          class: "bt-badge",
          "aria-hidden": "true",
          transform: `translate(${(owner.pill ? WIDE - 26 : WIDE) - 17} ${HIGH - 6})`,
        },
        svg("rect", { width: 22, height: 13, rx: 6.5 }),
        svg("text", { x: 11, y: 9.5, "text-anchor": "middle" }),
      );
      owner.badge.dpOwner = owner;
      (owner.pill || owner.box).append(owner.badge);
    }
    function label(node, star = "") {
      const before = star + (MARK[node.data.fate] || "");
      node.text.textContent =
        before +
        short(
          piece(run, node.data.token_id),
          (node.data.diversity_penalty > 0 ? 8 : 11) - before.length,
        );
    }
    const hides = (owner) => (owner.fold === undefined ? folded : owner.fold);
    const droppedOf = (owner) => owner.children.filter((n) => n.slot === "drop");
    // Visible dropped candidates of a step are packed under the shelf of their group.
    function pack(column) {
      const used = new Map();
      let grown = false;
      for (const node of column) {
        if (node.slot !== "drop") continue;
        const group = forest.groups[node.data.group];
        node.hidden = hides(node.parent || group);
        if (node.hidden) continue;
        node.index = used.get(group) || 0;
        used.set(group, node.index + 1);
        if (node.index + 1 > group.dropped) {
          group.dropped = node.index + 1;
          grown = true;
        }
      }
      return grown;
    }
    const heightOf = (g) =>
      (g.lanes + g.shelf + g.dropped) * ROW + (g.shelf ? 4 : 0) + (g.dropped ? 4 : 0) + GAP;
    const x = (node) => LEFT + node.column * COLUMN;
    const rowOf = (group, node) =>
      node.slot === "lane"
        ? node.index
        : group.lanes + (node.slot === "shelf" ? 0 : group.shelf) + node.index;
    const y = (node) => {
      const g = forest.groups[node.data.group];
      return (
        g.top +
        rowOf(g, node) * ROW +
        (node.slot === "lane" ? 0 : 4) +
        (node.slot === "drop" && g.shelf ? 4 : 0)
      );
    };
    function place(node) {
      node.y = node.hidden ? 0 : y(node);
      node.box.classList.toggle("away", Boolean(node.hidden));
      node.line.classList.toggle("away", Boolean(node.hidden));
      if (node.hidden) return;
      node.box.setAttribute("transform", `translate(${x(node)} ${node.y})`);
      const from = node.parent
          ? [x(node.parent) + WIDE, node.parent.y + HIGH / 2]
          : [LEFT - COLUMN + WIDE, forest.groups[node.data.group].top + HIGH / 2],
        to = [x(node), node.y + HIGH / 2],
        half = (to[0] - from[0]) / 2;
      node.curve = `M${from}C${[from[0] + half, from[1]]} ${[to[0] - half, to[1]]} ${to}`;
      node.line.setAttribute("d", node.curve);
      if (node.slot !== "drop") mapPath += `M${from}L${to}l${WIDE} 0`;
    }
    function count(owner) {
      if (!owner.badge) return;
      const number = droppedOf(owner).length,
        hidden = hides(owner);
      owner.badge.lastChild.textContent = (hidden ? "+" : "−") + number;
      owner.badge.classList.toggle("open", !hidden);
    }
    function arrange() {
      if (!forest) return;
      mark(fold, folded);
      fold.textContent = folded ? "Show dropped" : "Hide dropped";
      for (const g of forest.groups) g.dropped = 0;
      for (const column of forest.columns) pack(column);
      stack();
      mapPath = "";
      for (const column of forest.columns)
        for (const node of column) {
          place(node);
          count(node);
        }
      for (const g of forest.groups) count(g);
      mapLines.setAttribute("d", mapPath);
      traced();
      size();
    }
    // Group under group, with the names of their rows in the gutter.
    function stack() {
      let top = TOP;
      gutter.replaceChildren(
        svg("rect", { class: "bt-cover", x: 0, y: 0, width: GUTTER - 6, height: "100%" }),
      );
      for (const g of forest.groups) {
        g.top = top;
        top += heightOf(g);
        g.band.setAttribute("y", g.top - 5);
        g.band.setAttribute("height", g.lanes * ROW + 2);
        g.pill.setAttribute("transform", `translate(${LEFT - COLUMN + 26} ${g.top})`);
        const name = (row, text, kind) =>
          gutter.append(svg("text", { class: kind, x: 4, y: g.top + row + 15 }, text));
        name(
          0,
          forest.groups.length > 1 ? `group ${g.number + 1}` : g.lanes > 1 ? "beams" : "beam",
          "strong",
        );
        if (g.shelf) name(g.lanes * ROW + 4, "finished");
        if (g.dropped) name((g.lanes + g.shelf) * ROW + 4 + (g.shelf ? 4 : 0), "dropped");
      }
      forest.height = top - GAP + 8;
    }
    const width = () => LEFT + depth * COLUMN - COLUMN + WIDE + 14;
    function size() {
      if (!forest) return;
      const wide = width(),
        high = forest.height;
      canvas.setAttribute("viewBox", `0 0 ${wide} ${high}`);
      canvas.setAttribute("width", wide * scale);
      canvas.setAttribute("height", high * scale);
      canvas.classList.toggle("tiny", scale < SMALL);
      for (const g of forest.groups) g.band.setAttribute("width", wide - GUTTER - 4);
      ruler.firstChild.setAttribute("width", wide);
      map.setAttribute("viewBox", `0 0 ${wide} ${high}`);
      now.setAttribute("height", high - 4);
      now.setAttribute("width", WIDE + 12);
      now.setAttribute("y", 2);
      if (following) toEnd();
      watch();
    }
    // Names of rows and steps stay in view; layers far outside are not rendered.
    function watch() {
      const left = scroll.scrollLeft / scale,
        seenWide = scroll.clientWidth / scale,
        all = width();
      gutter.setAttribute("transform", `translate(${left} 0)`);
      ruler.setAttribute("transform", `translate(0 ${scroll.scrollTop / scale})`);
      lens.style.left = `${100 * Math.min(1, left / all)}%`;
      lens.style.width = `${100 * Math.min(1, seenWide / all)}%`;
      overview.classList.toggle("idle", seenWide >= all);
      const first = Math.max(0, Math.floor((left - LEFT) / COLUMN) - FAR),
        last = Math.ceil((left + seenWide - LEFT) / COLUMN) + FAR;
      for (let i = Math.min(first, near[0]); i <= Math.max(last, near[1]) && i < layers.length; i++)
        layers[i].group.classList.toggle("far", i < first || i > last);
      near = [first, last];
    }
    const toEnd = () => {
      scroll.scrollLeft = scroll.scrollWidth;
    };
    function setFollow(on) {
      following = on;
      mark(follow, on);
      if (on) {
        toEnd();
        watch();
      }
    }
    function zoom(factor, at = scroll.clientWidth / 2) {
      const before = scale,
        middle = (scroll.scrollLeft + at) / before;
      scale = Math.max(0.08, Math.min(2.5, scale * factor));
      size();
      if (!following) {
        scroll.scrollLeft = middle * scale - at;
        watch();
      }
    }
    function fit() {
      if (!forest) return;
      setFollow(false);
      scale = Math.max(
        0.08,
        Math.min(
          1.5,
          scroll.clientWidth / width(),
          Math.max(260, scroll.clientHeight) / forest.height,
        ),
      );
      size();
    }
    const save = (kind) => forest && saveTree(run, canvas, width(), forest.height, kind);

    // Returns whether everything must be placed again because a group needs more rows.
    function grow(detail, stale) {
      const layer = { lines: svg("g", {}), nodes: svg("g", {}) },
        { fresh, moved, dead } = forest.add(detail.pool);
      layer.group = svg("g", { class: "bt-layer" }, layer.lines, layer.nodes);
      layers.push(layer);
      boxes.append(layer.group);
      for (const node of fresh) draw(node, layer);
      for (const node of dead) {
        node.box.classList.add("dead");
        node.line.classList.add("dead");
      }
      ruler.append(svg("text", { x: LEFT + depth * COLUMN + 2, y: 15 }, depth + 1));
      depth++;
      const grown = pack(fresh);
      if (stale || moved || grown || depth === 1) return true;
      for (const node of fresh) place(node);
      for (const owner of new Set(fresh.map((n) => n.parent || forest.groups[n.data.group])))
        count(owner);
      return false;
    }
    function traced() {
      mapBest.setAttribute(
        "d",
        best
          .map(
            (n, i) =>
              `${(i ? "L" : `M${x(n) - COLUMN + WIDE} ${forest.groups[n.data.group].top + HIGH / 2}L`) + x(n)} ${n.y + HIGH / 2}l${WIDE} 0`,
          )
          .join(""),
      );
    }
    function showBest(detail) {
      const end = forest.best(detail),
        fresh = pathTo(end),
        old = best[best.length - 1];
      let same = 0;
      while (same < best.length && best[same] === fresh[same]) same++;
      for (const node of best.slice(same)) {
        node.box.classList.remove("best");
        node.line.classList.remove("best");
      }
      for (const node of fresh.slice(same)) {
        node.box.classList.add("best");
        node.line.classList.add("best");
        node.line.parentNode.append(node.line);
      }
      best = fresh;
      if (old && old !== end) {
        old.box.classList.remove("tip");
        label(old);
      }
      end.box.classList.add("tip");
      label(end, "★ ");
      if (!chosen) tab(end);
      traced();
      canvas.classList.toggle("ended", detail.stopping);
      headline.replaceChildren(
        el(
          "b",
          {},
          detail.winner_node_id === null
            ? run.status === "running"
              ? "★ Best so far, may still change: "
              : "★ Best when it stopped: "
            : "★ Winner: ",
        ),
        el("q", {}, textTo(run, end).trimStart()),
        el(
          "span",
          {},
          ` ${scoreOf(end.data.sum_logprobs, end.column + 1, run.config.length_penalty, end.data.score)}`,
        ),
      );
    }
    // The end of the search: the winner comes into view with its numbers, the greedy path is drawn.
    function finish(detail) {
      if (ended) return;
      ended = true;
      const winner = best[best.length - 1];
      if (!chosen) choose(winner);
      if (following) {
        setFollow(false);
        reveal(winner);
      }
      seen = depth - 1;
      greedy.replaceChildren(...greedyOf(run, forest, detail));
      if (detail.greedy)
        for (const node of forest.follow(detail.greedy.token_ids)) {
          node.box.classList.add("greedy");
          node.box.append(
            svg(
              "text",
              {
                class: "bt-g",
                x: WIDE - 5,
                y: node.data.diversity_penalty > 0 ? 18 : 10,
                "text-anchor": "end",
              },
              "G",
            ),
          );
          node.line.classList.add("greedy");
          node.box.setAttribute("aria-label", `${describe(run, node)}, on the greedy path`);
        }
    }
    function tab(node) {
      if (tabbed) tabbed.box.setAttribute("tabindex", -1);
      tabbed = node;
      node.box.setAttribute("tabindex", 0);
    }

    const mates = (node) =>
      forest.columns[node.column].filter((n) => n.data.group === node.data.group);
    function choose(node, focus) {
      if (chosen) chosen.box.classList.remove("sel");
      chosen = node;
      tab(node);
      node.box.classList.add("sel");
      if (node.hidden) toggle(node.parent || forest.groups[node.data.group], false);
      if (focus) {
        reveal(node);
        node.box.focus({ preventScroll: true });
      }
      const dropped = droppedOf(node),
        members = mates(node).sort((a, b) => a.data.rank - b.data.rank);
      facts.replaceChildren(
        ...factsOf(run, node, members.length),
        ctx.fork && !run.eos_token_ids.includes(node.data.token_id)
          ? el(
              "button",
              {
                type: "button",
                class: "dp-btn bt-continue",
                onclick: () =>
                  ctx.fork({
                    step: node.column,
                    token_id: node.data.token_id,
                    node_id: node.data.node_id,
                  }),
              },
              "Continue from here",
            )
          : "",
        el(
          "p",
          { class: "bt-text" },
          el("span", {}, "Text: "),
          el("q", {}, textTo(run, node).trimStart()),
        ),
        dropped.length
          ? el(
              "button",
              {
                type: "button",
                class: "dp-btn bt-fold-one",
                onclick: () => {
                  toggle(node);
                  choose(node);
                },
              },
              `${(hides(node) ? "Show its " : "Hide its ") + dropped.length} dropped continuation${dropped.length > 1 ? "s" : ""}`,
            )
          : "",
      );
      pool.replaceChildren(
        el(
          "details",
          {
            open: poolOpen === null ? focus : poolOpen,
            ontoggle: (e) => {
              poolOpen = e.target.open;
            },
          },
          el(
            "summary",
            {},
            `The whole pool of this step${forest.groups.length > 1 ? `, group ${node.data.group + 1}` : ""}`,
          ),
          poolOf(run, node, members, (n) => {
            choose(n, true);
            ctx.select(n.column);
          }),
        ),
      );
    }
    function toggle(owner, hide = !hides(owner)) {
      if (owner.badge) {
        owner.fold = hide;
        arrange();
      }
    }
    function reveal(node) {
      const left = x(node) * scale,
        top = node.y * scale,
        edge = GUTTER * scale + 8;
      if (left < scroll.scrollLeft + edge) scroll.scrollLeft = left - edge;
      else if (left + WIDE * scale > scroll.scrollLeft + scroll.clientWidth)
        scroll.scrollLeft = left + WIDE * scale + 20 - scroll.clientWidth;
      if (top < scroll.scrollTop + TOP * scale) scroll.scrollTop = top - TOP * scale;
      else if (top + HIGH * scale > scroll.scrollTop + scroll.clientHeight)
        scroll.scrollTop = top + HIGH * scale + 10 - scroll.clientHeight;
      watch();
    }
    function move(node, pressed) {
      const column = mates(node)
          .filter((n) => !n.hidden)
          .sort((a, b) => a.y - b.y),
        groups = forest.columns[node.column].filter((n) => !n.hidden).sort((a, b) => a.y - b.y),
        at = groups.indexOf(node);
      if (pressed === "ArrowLeft") return node.parent;
      if (pressed === "ArrowRight")
        return node.children
          .filter((n) => !n.hidden)
          .sort((a, b) => best.includes(b) - best.includes(a) || a.data.rank - b.data.rank)[0];
      if (pressed === "ArrowUp") return groups[at - 1];
      if (pressed === "ArrowDown") return groups[at + 1];
      if (pressed === "PageDown" || pressed === "PageUp")
        return column[pressed === "PageUp" ? 0 : column.length - 1];
      return pressed === "Home" ? best[0] : pressed === "End" ? best[best.length - 1] : null;
    }
    function hint(node) {
      tip.hidden = !node;
      if (!node) return;
      tip.replaceChildren(...factsOf(run, node, mates(node).length));
      const box = node.box.getBoundingClientRect(),
        wrap = scroll.parentNode.getBoundingClientRect(),
        low = box.bottom - wrap.top + 8;
      tip.style.left = `${Math.max(4, Math.min(wrap.width - tip.offsetWidth - 4, box.left - wrap.left))}px`;
      tip.style.top = `${low + tip.offsetHeight > wrap.height + 40 && box.top - wrap.top > tip.offsetHeight + 8 ? box.top - wrap.top - tip.offsetHeight - 8 : low}px`;
    }
    const hit = (event) => {
      const box = event.target.closest?.(".bt-node");
      return box ? box.dpNode : null;
    };
    let drag = null,
      dragged = false;
    canvas.addEventListener("click", (e) => {
      if (dragged) return;
      const fold = e.target.closest(".bt-badge"),
        node = hit(e);
      if (fold) return toggle(fold.dpOwner);
      if (node) {
        following = false;
        mark(follow, false);
        choose(node, true);
        ctx.select(node.column);
      }
    });
    // Scrolling under a resting mouse tells nothing: only a mouse that moved does.
    let mouse = "",
      hinted = null;
    canvas.addEventListener("mousemove", (e) => {
      const at = `${e.clientX} ${e.clientY}`,
        node = hit(e);
      if (at !== mouse && (node !== hinted || tip.hidden)) {
        hinted = node;
        hint(node);
      }
      mouse = at;
    });
    canvas.addEventListener("mouseleave", (e) => {
      if (`${e.clientX} ${e.clientY}` !== mouse) {
        hinted = null;
        hint(null);
      }
    });
    canvas.addEventListener("focusin", (e) => {
      const node = hit(e);
      if (node?.box.matches(":focus-visible")) hint(node);
    });
    canvas.addEventListener("focusout", () => hint(null));
    canvas.addEventListener("keydown", (e) => {
      const node = hit(e);
      if (!node || e.ctrlKey || e.metaKey || e.altKey) return;
      if (e.key === "f") {
        toggle(node);
        choose(node, true);
        return;
      }
      const next = e.key === "Enter" || e.key === " " ? node : move(node, e.key);
      if (!next) return;
      e.preventDefault();
      e.stopPropagation();
      setFollow(false);
      choose(next, true);
      ctx.select(next.column);
    });
    scroll.addEventListener("pointerdown", (e) => {
      hand = performance.now();
      dragged = false;
      if (e.pointerType === "mouse" && e.button === 0 && e.target !== scroll)
        drag = [e.clientX, e.clientY, scroll.scrollLeft, scroll.scrollTop];
    });
    scroll.addEventListener("pointermove", (e) => {
      if (!drag || (!dragged && Math.hypot(e.clientX - drag[0], e.clientY - drag[1]) < 5)) return;
      dragged = true;
      hand = performance.now();
      hint(null);
      scroll.scrollLeft = drag[2] - e.clientX + drag[0];
      scroll.scrollTop = drag[3] - e.clientY + drag[1];
    });
    for (const name of ["pointerup", "pointerleave"])
      scroll.addEventListener(name, () => {
        drag = null;
      });
    for (const name of ["wheel", "touchmove", "keydown"])
      scroll.addEventListener(
        name,
        () => {
          hand = performance.now();
        },
        { passive: true },
      );
    scroll.addEventListener(
      "wheel",
      (e) => {
        if (e.ctrlKey) {
          e.preventDefault();
          zoom(Math.exp(-e.deltaY / 300), e.clientX - scroll.getBoundingClientRect().left);
        }
      },
      { passive: false },
    );
    // Only a hand's own scrolling ends following, and coming back to the end starts it again.
    scroll.addEventListener(
      "scroll",
      () => {
        if (performance.now() - hand < 600) {
          following = scroll.scrollLeft + scroll.clientWidth > scroll.scrollWidth - 12;
          mark(follow, following);
        }
        if (forest) watch();
      },
      { passive: true },
    );
    const steer = (e) => {
      const box = overview.getBoundingClientRect();
      setFollow(false);
      scroll.scrollLeft =
        ((e.clientX - box.left) / box.width) * scroll.scrollWidth - scroll.clientWidth / 2;
    };
    overview.addEventListener("pointerdown", (e) => {
      overview.setPointerCapture(e.pointerId);
      steer(e);
    });
    overview.addEventListener("pointermove", (e) => {
      if (e.buttons) steer(e);
    });
    new ResizeObserver(() => {
      if (forest) size();
    }).observe(scroll);
    reset();

    return {
      update(fresh, from) {
        if (from === 0 && depth) reset();
        run = fresh;
        if (!run.steps.length || !run.steps[0].detail || run.steps[0].detail.kind !== "beam")
          return;
        if (!forest) begin();
        let changed = false;
        while (depth < run.steps.length) changed = grow(run.steps[depth].detail, changed);
        const last = run.steps[depth - 1].detail;
        if (changed) arrange();
        else mapLines.setAttribute("d", mapPath);
        showBest(last);
        size();
        if (last.stopping) finish(last);
        if (more.open) table.grow(run);
      },
      select(fresh, index) {
        if (fresh !== run || !layers[index]) return;
        now.setAttribute("x", LEFT + index * COLUMN - 6);
        const wanted = index + (run.steps[index].detail.stopping ? "!" : "");
        if (shownState !== wanted) {
          shownState = wanted;
          state.replaceChildren(...stateOf(run, forest, index));
        }
        if (following && index !== depth - 1) setFollow(false);
        if (seen !== index && !following) {
          const node = best[index] || forest.columns[index][0],
            left = x(node) * scale;
          if (
            left < scroll.scrollLeft + GUTTER ||
            left + WIDE * scale > scroll.scrollLeft + scroll.clientWidth
          )
            reveal(node);
        }
        seen = index;
      },
      clear: reset,
    };
  },
};
