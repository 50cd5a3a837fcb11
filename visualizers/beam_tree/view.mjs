// View of a beam search as a tree of all candidates. Fates
// come from the record and are not derived again.
import { el, setAttributes } from "../shared/dom.mjs";
import { registerPicture } from "../shared/pictures.mjs";
import { tr } from "../shared/tr.mjs";
import { Canvas, findBadgeOwner, findNode } from "./canvas.mjs";
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
import { pathTo, stepSummary } from "./words.mjs";

/** @import { TreeNode, TreeOwner } from "./tree.d.ts" */

const NARROW_WIDTH = 700;

class BeamTree {
  #folded = innerWidth < NARROW_WIDTH;
  /** @type {Run | null} null until a beam search is drawn */
  run = null;
  // Empty until the first step.
  forest = new Forest({});
  layout = new Layout(this.forest, this.#folded);
  depth = 0;
  /** @type {TreeNode[]} */
  best = [];
  /** @type {TreeNode | null} */
  chosen = null;
  /** @type {TreeNode | null} */
  tabbed = null;
  seen = -1;
  ended = false;

  /**
   * @param {HTMLElement} root
   * @param {Context} ctx
   */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.canvas = new Canvas();
    this.tip = new NodeTooltip();
    this.panels = new Panels(() => this.run && this.panels.grow(this.run));
    this.tools = createToolbar({
      fold: () => this.#foldAll(),
      follow: () => this.viewport.follow(!this.viewport.following),
      zoom: (factor) => this.viewport.zoom(factor),
      fit: () => this.viewport.fit(),
      enlarge: () =>
        document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen(),
      save: (kind) =>
        this.run && saveTree(this.run, this.canvas, this.#treeWidth(), this.forest.height, kind),
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
        this.run && createTreePicture(this.run, this.canvas, this.#treeWidth(), this.forest.height),
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
    this.run = null;
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

  /** @param {Run} run */
  #startTree(run) {
    this.forest = new Forest(run.config);
    this.layout = new Layout(this.forest, this.#folded);
    this.panels.begin(this.forest.columns);
    this.canvas.begin(this.forest.groups);
  }

  /**
   * @param {Run} run
   * @param {number} from
   */
  update(run, from) {
    if (from === 0 && this.depth) this.clear();
    if (run.steps[0]?.detail?.kind !== "beam") return;
    this.run = run;
    if (!this.depth) this.#startTree(run);
    let changed = false;
    while (this.depth < run.steps.length) changed = this.#addStep(run, changed);
    const last = run.steps[this.depth - 1].detail;
    if (changed) this.#arrangeTree();
    else this.#drawMap();
    this.#showBest(run, last);
    this.#resize();
    // The greedy comparison arrives with the end of the run.
    if (last.stopping && run.status !== "running") this.#showEnd(run, last);
    this.panels.grow(run);
  }

  /**
   * Add a step. Returns whether all nodes must be placed again because a group needs more rows.
   * @param {Run} run
   * @param {boolean} stale
   */
  #addStep(run, stale) {
    const layer = this.canvas.addLayer();
    const { pool } = run.steps[this.depth].detail;
    const { fresh, moved, dead } = this.forest.add(pool, stepSummary(run, this.depth));
    for (const node of fresh) {
      this.canvas.draw(run, node, layer);
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
    if (!this.depth) return;
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
    if (this.depth) this.viewport.resize(this.forest.groups, this.#treeWidth(), this.forest.height);
  }

  #drawMap() {
    this.viewport.mapLines.setAttribute("d", this.layout.mapPath);
  }

  #traceBest() {
    /** @param {TreeNode} node */
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

  /**
   * @param {Run} run
   * @param {BeamDetail} detail
   */
  #showBest(run, detail) {
    const end = this.forest.nodes.get(stepSummary(run, this.depth - 1).best);
    if (!end) return;
    const old = this.best.at(-1);
    this.#markBest(pathTo(end));
    if (old && old !== end) {
      old.box.classList.remove("tip");
      this.canvas.label(run, old);
    }
    end.box.classList.add("tip");
    this.canvas.label(run, end, "★ ");
    if (!this.chosen) this.#setTabStop(end);
    this.#traceBest();
    this.canvas.node.classList.toggle("ended", detail.stopping);
    this.panels.best(run, detail, end);
  }

  /** @param {TreeNode[]} fresh */
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
      line.parentNode?.append(line);
    }
    this.best = fresh;
  }

  /**
   * Scroll to the step where the texts first diverge, and draw the greedy path.
   * @param {Run} run
   * @param {BeamDetail} detail
   */
  #showEnd(run, detail) {
    if (this.ended) return;
    this.ended = true;
    const summary = stepSummary(run, this.depth - 1);
    const start = this.best[summary.parting ?? -1] ?? this.best.at(-1);
    if (start && !this.chosen) this.#chooseNode(start);
    if (start && this.viewport.following) {
      this.viewport.follow(false);
      this.viewport.reveal(start);
      if (run.selected === this.depth - 1) this.ctx.select(start.column);
    }
    this.seen = this.depth - 1;
    this.panels.greedy(run, this.forest, detail);
    for (const id of summary.greedy?.path ?? []) {
      const node = this.forest.nodes.get(id);
      if (node) this.canvas.markGreedy(run, node);
    }
  }

  /**
   * Only one node is in the tab order; arrow keys move from there.
   * @param {TreeNode} node
   */
  #setTabStop(node) {
    this.tabbed?.box.setAttribute("tabindex", "-1");
    this.tabbed = node;
    node.box.setAttribute("tabindex", "0");
  }

  /** @param {TreeNode} node */
  #groupMates(node) {
    return this.forest.columns[node.column].filter((n) => n.data.group === node.data.group);
  }

  /**
   * @param {TreeNode} node
   * @param {boolean} focus
   */
  #chooseNode(node, focus = false) {
    if (!this.run) return;
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
      fork: this.#forkAction(this.run, node),
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

  /**
   * @param {Run} run
   * @param {TreeNode} node
   */
  #forkAction(run, node) {
    const { token_id, node_id } = node.data;
    if (!this.ctx.fork || run.eos_token_ids.includes(token_id)) return null;
    return () => this.ctx.fork?.({ step: node.column, token_id, node_id });
  }

  /** @param {TreeNode} node */
  #whyAction({ column, data }) {
    if (!this.ctx.ask) return null;
    return () => this.ctx.ask?.({ step: column, node_id: data.node_id });
  }

  /**
   * @param {TreeOwner} owner
   * @param {boolean} hide
   */
  #toggleFold(owner, hide = !this.layout.hides(owner)) {
    if (!owner.badge) return;
    owner.fold = hide;
    this.#arrangeTree();
  }

  #listen() {
    const canvas = this.canvas.node;
    canvas.addEventListener("click", (e) => {
      if (this.viewport.dragged) return;
      const owner = findBadgeOwner(e);
      const node = findNode(e);
      if (owner) this.#toggleFold(owner);
      else if (node) this.#goTo(node);
    });
    canvas.addEventListener("keydown", (e) => this.#handleKey(e, findNode(e)));
    this.tip.listen(canvas, findNode, (node) => {
      if (!this.run) return;
      this.tip.show(node.box, createNodeFacts(this.run, node, this.#groupMates(node).length));
    });
  }

  /** @param {TreeNode} node */
  #goTo(node) {
    this.viewport.follow(false);
    this.#chooseNode(node, true);
    this.ctx.select(node.column, node.data.node_id);
  }

  /**
   * @param {KeyboardEvent} event
   * @param {TreeNode | null} node
   */
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

  /**
   * @param {Run} run
   * @param {number} index
   */
  select(run, index) {
    if (run !== this.run || index >= this.depth) return;
    setAttributes(this.canvas.now, { x: TREE_LEFT + index * COLUMN_WIDTH - 6 });
    this.panels.state(run, this.forest, index);
    const wanted = run.node === null ? this.best[index] : this.forest.nodes.get(run.node ?? -1);
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
