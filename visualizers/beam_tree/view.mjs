// View of a beam search as a tree of all candidates. Fates
// come from the record and are not derived again.
import { el } from "../shared/dom.mjs";
import { registerPicture } from "../shared/pictures.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { tr } from "../shared/tr.mjs";
import { Canvas, findBadgeOwner, findNode } from "./canvas.mjs";
import { Forest } from "./forest.mjs";
import { tracePath, traceTexts } from "./geometry.mjs";
import { createNodeFacts, createNodeTitle } from "./info.mjs";
import { Layout, listDropped } from "./layout.mjs";
import { findNeighbour } from "./navigation.mjs";
import { Panels } from "./panels.mjs";
import { createTreePicture, saveTree } from "./picture.mjs";
import { createDetailLegend, createLegend, createToolbar, setPressed } from "./toolbar.mjs";
import { NodeTooltip } from "./tooltip.mjs";
import { Viewport } from "./viewport.mjs";
import { pathTo, stepSummary } from "./words.mjs";

/** @import { TreeNode, TreeOwner } from "./tree.d.ts" */

class BeamTree {
  /** @type {Run | null} null until a beam search is drawn */
  run = null;
  // Empty until the first step.
  forest = new Forest({});
  layout = new Layout(this.forest);
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
    this.root = root;
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
      save: (kind) => this.run && saveTree(this.run, this.canvas, this.layout, kind),
    });
    this.viewport = new Viewport(this.canvas, {
      resized: () => this.#resize(),
      followed: (on) => setPressed(this.tools.following, on),
      dragging: () => this.tip.hide(),
    });
    root.classList.add("bt-root");
    registerPicture(root, () => this.run && createTreePicture(this.run, this.canvas, this.layout));
    const { headline, below, more } = this.panels;
    this.details = el(
      "details",
      { class: "bt-details", ontoggle: () => this.#showDetails() },
      el("summary", {}, tr("Tree tools")),
      el(
        "p",
        { class: "dp-note" },
        renderTerms(tr("Each text that the search keeps is a [beam].")),
      ),
      this.tools.box,
      this.viewport.overview,
      headline,
      createDetailLegend(),
      below,
      more,
    );
    const wrap = el("div", { class: "bt-wrap" }, this.viewport.scroll, this.tip.node);
    root.append(wrap, createLegend(), this.details);
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
    this.root.classList.remove("has-greedy");
    this.canvas.clear();
    this.panels.clear();
    this.tip.hide();
    this.viewport.clear();
  }

  #showDetails() {
    this.root.classList.toggle("detailed", this.details.open);
    this.#drawMap();
  }

  /** @param {Run} run */
  #startTree(run) {
    const { folded } = this.layout;
    this.forest = new Forest(run.config);
    this.layout = new Layout(this.forest);
    this.layout.folded = folded;
    this.layout.rootWidth = this.canvas.begin(run, this.forest.groups);
    this.panels.begin(this.forest.columns);
  }

  /**
   * @param {Run} run
   * @param {number} from
   */
  update(run, from) {
    if (from === 0 && this.depth) this.clear();
    if (run.steps[0]?.detail?.kind !== "beam") return;
    this.run = run;
    this.root.classList.toggle("stale", Boolean(this.ctx.preview?.stale));
    if (!this.depth) this.#startTree(run);
    if (this.depth < run.steps.length) {
      while (this.depth < run.steps.length) this.#addStep(run);
      this.#findBest(run);
      this.#arrangeTree();
    }
    this.panels.best(run, this.best);
    const last = run.steps[this.depth - 1].detail;
    // The greedy comparison arrives with the end of the run.
    if (last.stopping && run.status !== "running") this.#showEnd(run, last);
    this.panels.grow(run);
  }

  /** @param {Run} run */
  #addStep(run) {
    const layer = this.canvas.addLayer();
    const { pool } = run.steps[this.depth].detail;
    const { fresh, dead } = this.forest.add(pool, stepSummary(run, this.depth));
    for (const node of fresh) this.canvas.draw(run, node, layer);
    for (const owner of new Set(fresh.map(this.layout.ownerOf)))
      if (listDropped(owner).length) this.canvas.badge(owner);
    for (const node of dead) this.canvas.markDead(node);
    this.depth++;
  }

  #arrangeTree() {
    if (!this.depth) return;
    setPressed(this.tools.folding, !this.layout.folded);
    this.layout.arrange(this.best);
    this.canvas.arrange(this.layout);
    this.#drawMap();
    this.#resize();
  }

  #foldAll() {
    this.layout.foldAll(!this.layout.folded);
    this.#arrangeTree();
  }

  #resize() {
    if (!this.depth) return;
    this.viewport.resize(this.layout);
    if (this.ended) this.viewport.fitSteps();
  }

  #drawMap() {
    if (!this.details.open) return;
    this.viewport.mapLines.setAttribute("d", traceTexts(this.forest.columns));
    this.viewport.mapBest.setAttribute("d", tracePath(this.best));
  }

  /** @param {Run} run */
  #findBest(run) {
    const end = this.forest.nodes.get(stepSummary(run, this.depth - 1).best);
    if (!end) return;
    this.#markBest(pathTo(end));
    if (!this.chosen) this.#setTabStop(end);
  }

  /** @param {TreeNode[]} fresh */
  #markBest(fresh) {
    let same = 0;
    while (same < this.best.length && this.best[same] === fresh[same]) same++;
    for (const node of this.best.slice(same)) this.canvas.markBest(node, false);
    for (const node of fresh.slice(same)) this.canvas.markBest(node, true);
    this.best = fresh;
  }

  /**
   * Show the step where the texts first diverge, and the greedy path.
   * @param {Run} run
   * @param {BeamDetail} detail
   */
  #showEnd(run, detail) {
    if (this.ended) return;
    this.ended = true;
    const summary = stepSummary(run, this.depth - 1);
    const start = this.best[summary.parting ?? -1] ?? this.best.at(-1);
    if (start && !this.chosen) this.#chooseNode(start);
    const followed = this.viewport.following;
    if (followed) this.viewport.follow(false);
    this.#resize();
    if (start && followed) {
      this.viewport.toRoot();
      if (!this.viewport.sees(start)) this.viewport.reveal(start);
      if (run.selected === this.depth - 1) this.ctx.select(start.column);
    }
    this.seen = this.depth - 1;
    this.panels.greedy(run, this.forest, detail);
    const path = summary.greedy?.path ?? [];
    for (const id of path) {
      const node = this.forest.nodes.get(id);
      if (node) this.canvas.markGreedy(run, node);
    }
    const apart = path.some(
      (/** @type {number} */ id, /** @type {number} */ i) => this.best[i]?.data.node_id !== id,
    );
    this.root.classList.toggle("has-greedy", apart);
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
    if (this.chosen) this.canvas.select(this.chosen, false);
    this.chosen = node;
    this.#setTabStop(node);
    this.canvas.select(node, true);
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
      const facts = this.details.open
        ? createNodeFacts(this.run, node, this.#groupMates(node).length)
        : [createNodeTitle(this.run, node)];
      this.tip.show(node.box, facts);
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
    this.canvas.selectStep(this.layout, index);
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
  heading: false,
  empty: tr("The texts that the search keeps, as a tree."),
  mount: (root, ctx) => new BeamTree(root, ctx),
};
