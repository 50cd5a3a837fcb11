// View of a beam search as a tree of all candidates. Fates
// come from the record and are not derived again.
import { el, setAttributes, svg } from "../shared/dom.mjs";
import { registerPicture } from "../shared/pictures.mjs";
import { tr } from "../shared/tr.mjs";
import { Canvas } from "./canvas.mjs";
import { Forest } from "./forest.mjs";
import { COLUMN_WIDTH, NODE_HEIGHT, NODE_WIDTH, nodeX, TREE_LEFT, treeWidth } from "./geometry.mjs";
import { createNodeFacts } from "./info.mjs";
import { Layout } from "./layout.mjs";
import { findNeighbour } from "./navigation.mjs";
import { Panels } from "./panels.mjs";
import { createTreePicture, saveTree } from "./picture.mjs";
import { createLegend, createToolbar, setPressed } from "./toolbar.mjs";
import { NodeTooltip } from "./tooltip.mjs";
import { Viewport } from "./viewport.mjs";
import { describeTreeNode, pathTo, stepSummary } from "./words.mjs";

const NARROW_WIDTH = 700;

class BeamTree {
  #folded = innerWidth < NARROW_WIDTH;

  /** @param {Context} ctx */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.canvas = new Canvas();
    this.tip = new NodeTooltip();
    this.panels = new Panels(() => this.panels.grow(this.run));
    this.tools = createToolbar({
      fold: () => this.#foldAll(),
      follow: () => this.viewport.follow(!this.viewport.following),
      zoom: (factor) => this.viewport.zoom(factor),
      fit: () => this.viewport.fit(),
      enlarge: () =>
        document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen(),
      save: (kind) =>
        this.forest && saveTree(this.run, this.canvas, this.#treeWidth(), this.forest.height, kind),
    });
    this.viewport = new Viewport(this.canvas, {
      resized: () => this.#resize(),
      followed: (on) => setPressed(this.tools.following, on),
      dragging: () => this.tip.hide(),
    });
    root.classList.add("bt-root");
    registerPicture(
      root,
      () =>
        this.forest &&
        createTreePicture(this.run, this.canvas, this.#treeWidth(), this.forest.height),
    );
    const { headline, below, more } = this.panels;
    const wrap = el("div", { class: "bt-wrap" }, this.viewport.scroll, this.tip.node);
    root.append(
      headline,
      this.tools.box,
      wrap,
      this.viewport.overview,
      createLegend(),
      below,
      more,
    );
    this.#listen();
    this.clear();
  }

  clear() {
    this.forest = null;
    this.layout = null;
    this.depth = 0;
    this.best = [];
    this.chosen = null;
    this.tabbed = null;
    this.seen = -1;
    this.ended = false;
    this.canvas.clear();
    this.panels.clear();
    this.tip.hide();
    this.viewport.clear();
  }

  #startTree() {
    this.forest = new Forest(this.run.config);
    this.layout = new Layout(this.forest, this.#folded);
    this.panels.begin(this.forest.columns);
    this.canvas.begin(this.forest.groups);
  }

  /** @param {Run} run */
  update(run, from) {
    if (from === 0 && this.depth) this.clear();
    this.run = run;
    if (run.steps[0]?.detail?.kind !== "beam") return;
    if (!this.forest) this.#startTree();
    let changed = false;
    while (this.depth < run.steps.length)
      changed = this.#addStep(run.steps[this.depth].detail, stepSummary(run, this.depth), changed);
    const last = run.steps[this.depth - 1].detail;
    if (changed) this.#arrangeTree();
    else this.#drawMap();
    this.#showBest(last);
    this.#resize();
    // The greedy comparison arrives with the end of the run.
    if (last.stopping && run.status !== "running") this.#showEnd(last);
    this.panels.grow(run);
  }

  // Add a step. Returns whether all nodes must be placed again because a group needs more rows.
  #addStep(detail, shown, stale) {
    const layer = this.canvas.addLayer();
    const { fresh, moved, dead } = this.forest.add(detail.pool, shown);
    for (const node of fresh) {
      this.canvas.draw(this.run, node, layer);
      if (node.slot === "drop") this.canvas.badge(this.layout.ownerOf(node));
    }
    for (const node of dead) {
      node.box.classList.add("dead");
      node.line.classList.add("dead");
    }
    this.depth++;
    const grown = this.layout.pack(fresh);
    if (stale || moved || grown || this.depth === 1) return true;
    for (const node of fresh) this.layout.place(node);
    for (const owner of new Set(fresh.map(this.layout.ownerOf))) this.layout.count(owner);
    return false;
  }

  #arrangeTree() {
    if (!this.forest) return;
    setPressed(this.tools.folding, this.#folded);
    this.tools.folding.textContent = this.#folded ? tr("Show dropped") : tr("Hide dropped");
    this.layout.arrange();
    this.canvas.stack(this.forest.groups);
    this.#drawMap();
    this.#traceBest();
    this.#resize();
  }

  #foldAll() {
    this.#folded = !this.#folded;
    this.layout.foldAll(this.#folded);
    this.#arrangeTree();
  }

  #treeWidth() {
    return treeWidth(this.depth);
  }

  #resize() {
    if (this.forest)
      this.viewport.resize(this.forest.groups, this.#treeWidth(), this.forest.height);
  }

  #drawMap() {
    this.viewport.mapLines.setAttribute("d", this.layout.mapPath);
  }

  #traceBest() {
    const start = (node) => {
      const group = this.layout.groupOf(node);
      return `M${nodeX(node) - COLUMN_WIDTH + NODE_WIDTH} ${group.top + NODE_HEIGHT / 2}L`;
    };
    const path = this.best.map(
      (node, i) =>
        `${i ? "L" : start(node)}${nodeX(node)} ${node.y + NODE_HEIGHT / 2}l${NODE_WIDTH} 0`,
    );
    this.viewport.mapBest.setAttribute("d", path.join(""));
  }

  #showBest(detail) {
    const end = this.forest.nodes.get(stepSummary(this.run, this.depth - 1).best);
    const old = this.best.at(-1);
    this.#markBest(pathTo(end));
    if (old && old !== end) {
      old.box.classList.remove("tip");
      this.canvas.label(this.run, old);
    }
    end.box.classList.add("tip");
    this.canvas.label(this.run, end, "★ ");
    if (!this.chosen) this.#setTabStop(end);
    this.#traceBest();
    this.canvas.node.classList.toggle("ended", detail.stopping);
    this.panels.best(this.run, detail, end);
  }

  #markBest(fresh) {
    let same = 0;
    while (same < this.best.length && this.best[same] === fresh[same]) same++;
    for (const { box, line } of this.best.slice(same)) {
      box.classList.remove("best");
      line.classList.remove("best");
    }
    for (const { box, line } of fresh.slice(same)) {
      box.classList.add("best");
      line.classList.add("best");
      line.parentNode.append(line);
    }
    this.best = fresh;
  }

  // Scroll to the step where the texts first diverge, and draw the greedy path.
  #showEnd(detail) {
    if (this.ended) return;
    this.ended = true;
    const { parting } = stepSummary(this.run, this.depth - 1);
    const node = this.best[parting ?? -1] ?? this.best.at(-1);
    if (!this.chosen) this.#chooseNode(node);
    if (this.viewport.following) {
      this.viewport.follow(false);
      this.viewport.reveal(node);
      if (this.run.selected === this.depth - 1) this.ctx.select(node.column);
    }
    this.seen = this.depth - 1;
    this.panels.greedy(this.run, this.forest, detail);
    for (const id of stepSummary(this.run, this.depth - 1).greedy?.path ?? []) {
      const node = this.forest.nodes.get(id);
      const y = node.data.diversity_penalty > 0 ? 18 : 10;
      node.box.classList.add("greedy");
      node.box.append(
        svg("text", { class: "bt-g", x: NODE_WIDTH - 5, y, "text-anchor": "end" }, "G"),
      );
      node.line.classList.add("greedy");
      node.box.setAttribute(
        "aria-label",
        tr("{node}, on the greedy path", { node: describeTreeNode(this.run, node) }),
      );
    }
  }

  // Only one node is in the tab order; arrow keys move from there.
  #setTabStop(node) {
    this.tabbed?.box.setAttribute("tabindex", -1);
    this.tabbed = node;
    node.box.setAttribute("tabindex", 0);
  }

  #groupMates(node) {
    return this.forest.columns[node.column].filter((n) => n.data.group === node.data.group);
  }

  #chooseNode(node, focus) {
    this.chosen?.box.classList.remove("sel");
    this.chosen = node;
    this.#setTabStop(node);
    node.box.classList.add("sel");
    if (node.hidden) this.#toggleFold(this.layout.ownerOf(node), false);
    if (focus) {
      this.viewport.reveal(node);
      node.box.focus({ preventScroll: true });
    }
    const members = this.#groupMates(node).sort((a, b) => a.data.rank - b.data.rank);
    this.panels.chosen(this.run, node, members, {
      fork: this.#forkAction(node),
      why: this.#whyAction(node),
      hidden: this.layout.hides(node),
      fold: () => {
        this.#toggleFold(node);
        this.#chooseNode(node);
      },
      choose: (other) => {
        this.#chooseNode(other, true);
        this.ctx.select(other.column, other.data.node_id);
      },
      focus,
      group: this.forest.groups.length > 1 ? tr(", group {n}", { n: node.data.group + 1 }) : "",
    });
  }

  #forkAction(node) {
    const { token_id, node_id } = node.data;
    if (!this.ctx.fork || this.run.eos_token_ids.includes(token_id)) return null;
    return () => this.ctx.fork({ step: node.column, token_id, node_id });
  }

  #whyAction({ column, data }) {
    if (!this.ctx.ask) return null;
    return () => this.ctx.ask?.({ step: column, node_id: data.node_id });
  }

  #toggleFold(owner, hide = !this.layout.hides(owner)) {
    if (!owner.badge) return;
    owner.fold = hide;
    this.#arrangeTree();
  }

  #listen() {
    const canvas = this.canvas.node;
    const near = (event, query) => /** @type {any} */ (event.target.closest?.(query));
    const nodeOf = (event) => near(event, ".bt-node")?.dpNode ?? null;
    canvas.addEventListener("click", (e) => {
      if (this.viewport.dragged) return;
      const fold = near(e, ".bt-badge");
      const node = nodeOf(e);
      if (fold) this.#toggleFold(fold.dpOwner);
      else if (node) this.#goTo(node);
    });
    canvas.addEventListener("keydown", (e) => this.#handleKey(e, nodeOf(e)));
    this.tip.listen(canvas, nodeOf, (node) =>
      this.tip.show(node.box, createNodeFacts(this.run, node, this.#groupMates(node).length)),
    );
  }

  #goTo(node) {
    this.viewport.follow(false);
    this.#chooseNode(node, true);
    this.ctx.select(node.column, node.data.node_id);
  }

  #handleKey(event, node) {
    if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "f") {
      this.#toggleFold(node);
      this.#chooseNode(node, true);
      return;
    }
    const stays = event.key === "Enter" || event.key === " ";
    const next = stays ? node : findNeighbour(this.forest, this.best, node, event.key);
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    this.#goTo(next);
  }

  /** @param {Run} run */
  select(run, index) {
    if (run !== this.run || !this.canvas.layers[index]) return;
    setAttributes(this.canvas.now, { x: TREE_LEFT + index * COLUMN_WIDTH - 6 });
    this.panels.state(run, this.forest, index);
    const wanted = run.node === null ? this.best[index] : this.forest.nodes.get(run.node);
    if (this.ended && wanted && this.chosen !== wanted) this.#chooseNode(wanted);
    if (this.viewport.following && index !== this.depth - 1) this.viewport.follow(false);
    if (this.seen !== index && !this.viewport.following) {
      const node = this.best[index] || this.forest.columns[index][0];
      if (!this.viewport.sees(node)) this.viewport.reveal(node);
    }
    this.seen = index;
  }
}

/** @type {ViewSpec} */
export const beamTree = {
  title: tr("Beam tree"),
  picture: true,
  heading: tr("[beam|Beam] tree"),
  empty: tr(
    "Every candidate of every step as a tree that grows while the search runs: what was kept, what was dropped and why, which texts finished, and the winner.",
  ),
  mount: (root, ctx) => new BeamTree(root, ctx),
};
