// View of a beam search as a tree of all candidates. Fates
// come from the record and are not derived again.
import { el, set, svg } from "../shared/dom.mjs";
import { offerPicture } from "../shared/pictures.mjs";
import { tr } from "../shared/tr.mjs";
import { Canvas } from "./canvas.mjs";
import { Forest } from "./forest.mjs";
import { COLUMN, HIGH, LEFT, WIDE, widthOf, xOf } from "./geometry.mjs";
import { factsOf } from "./info.mjs";
import { Layout } from "./layout.mjs";
import { neighbour } from "./navigation.mjs";
import { Panels } from "./panels.mjs";
import { saveTree, treePicture } from "./picture.mjs";
import { legend, press, toolbar } from "./toolbar.mjs";
import { Tip } from "./tooltip.mjs";
import { Viewport } from "./viewport.mjs";
import { describe, pathTo, shownOf } from "./words.mjs";

const NARROW = 700;

class BeamTree {
  #folded = innerWidth < NARROW;

  /** @param {Context} ctx */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.canvas = new Canvas();
    this.tip = new Tip();
    this.panels = new Panels(() => this.panels.grow(this.run));
    this.tools = toolbar({
      fold: () => this.#foldAll(),
      follow: () => this.viewport.follow(!this.viewport.following),
      zoom: (factor) => this.viewport.zoom(factor),
      fit: () => this.viewport.fit(),
      enlarge: () =>
        document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen(),
      save: (kind) =>
        this.forest && saveTree(this.run, this.canvas, this.#width(), this.forest.height, kind),
    });
    this.viewport = new Viewport(this.canvas, {
      resized: () => this.#resize(),
      followed: (on) => press(this.tools.following, on),
      dragging: () => this.tip.hide(),
    });
    root.classList.add("bt-root");
    offerPicture(
      root,
      () => this.forest && treePicture(this.run, this.canvas, this.#width(), this.forest.height),
    );
    const { headline, below, more } = this.panels;
    const wrap = el("div", { class: "bt-wrap" }, this.viewport.scroll, this.tip.node);
    root.append(headline, this.tools.box, wrap, this.viewport.overview, legend(), below, more);
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

  #begin() {
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
    if (!this.forest) this.#begin();
    let changed = false;
    while (this.depth < run.steps.length)
      changed = this.#grow(run.steps[this.depth].detail, shownOf(run, this.depth), changed);
    const last = run.steps[this.depth - 1].detail;
    if (changed) this.#arrange();
    else this.#drawMap();
    this.#showBest(last);
    this.#resize();
    // The greedy comparison arrives with the end of the run.
    if (last.stopping && run.status !== "running") this.#finish(last);
    this.panels.grow(run);
  }

  // Add a step. Returns whether all nodes must be placed again because a group needs more rows.
  #grow(detail, shown, stale) {
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

  #arrange() {
    if (!this.forest) return;
    press(this.tools.folding, this.#folded);
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
    this.#arrange();
  }

  #width() {
    return widthOf(this.depth);
  }

  #resize() {
    if (this.forest) this.viewport.resize(this.forest.groups, this.#width(), this.forest.height);
  }

  #drawMap() {
    this.viewport.mapLines.setAttribute("d", this.layout.mapPath);
  }

  #traceBest() {
    const start = (node) => {
      const group = this.layout.groupOf(node);
      return `M${xOf(node) - COLUMN + WIDE} ${group.top + HIGH / 2}L`;
    };
    const path = this.best.map(
      (node, i) => `${i ? "L" : start(node)}${xOf(node)} ${node.y + HIGH / 2}l${WIDE} 0`,
    );
    this.viewport.mapBest.setAttribute("d", path.join(""));
  }

  #showBest(detail) {
    const end = this.forest.nodes.get(shownOf(this.run, this.depth - 1).best);
    const old = this.best.at(-1);
    this.#markBest(pathTo(end));
    if (old && old !== end) {
      old.box.classList.remove("tip");
      this.canvas.label(this.run, old);
    }
    end.box.classList.add("tip");
    this.canvas.label(this.run, end, "★ ");
    if (!this.chosen) this.#tab(end);
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
  #finish(detail) {
    if (this.ended) return;
    this.ended = true;
    const { parting } = shownOf(this.run, this.depth - 1);
    const node = this.best[parting ?? -1] ?? this.best.at(-1);
    if (!this.chosen) this.#choose(node);
    if (this.viewport.following) {
      this.viewport.follow(false);
      this.viewport.reveal(node);
      if (this.run.selected === this.depth - 1) this.ctx.select(node.column);
    }
    this.seen = this.depth - 1;
    this.panels.greedy(this.run, this.forest, detail);
    for (const id of shownOf(this.run, this.depth - 1).greedy?.path ?? []) {
      const node = this.forest.nodes.get(id);
      const y = node.data.diversity_penalty > 0 ? 18 : 10;
      node.box.classList.add("greedy");
      node.box.append(svg("text", { class: "bt-g", x: WIDE - 5, y, "text-anchor": "end" }, "G"));
      node.line.classList.add("greedy");
      node.box.setAttribute(
        "aria-label",
        tr("{node}, on the greedy path", { node: describe(this.run, node) }),
      );
    }
  }

  // Only one node is in the tab order; arrow keys move from there.
  #tab(node) {
    this.tabbed?.box.setAttribute("tabindex", -1);
    this.tabbed = node;
    node.box.setAttribute("tabindex", 0);
  }

  #mates(node) {
    return this.forest.columns[node.column].filter((n) => n.data.group === node.data.group);
  }

  #choose(node, focus) {
    this.chosen?.box.classList.remove("sel");
    this.chosen = node;
    this.#tab(node);
    node.box.classList.add("sel");
    if (node.hidden) this.#toggle(this.layout.ownerOf(node), false);
    if (focus) {
      this.viewport.reveal(node);
      node.box.focus({ preventScroll: true });
    }
    const members = this.#mates(node).sort((a, b) => a.data.rank - b.data.rank);
    this.panels.chosen(this.run, node, members, {
      fork: this.#forkOf(node),
      why: this.#whyOf(node),
      hidden: this.layout.hides(node),
      fold: () => {
        this.#toggle(node);
        this.#choose(node);
      },
      choose: (other) => {
        this.#choose(other, true);
        this.ctx.select(other.column, other.data.node_id);
      },
      focus,
      group: this.forest.groups.length > 1 ? tr(", group {n}", { n: node.data.group + 1 }) : "",
    });
  }

  #forkOf(node) {
    const { token_id, node_id } = node.data;
    if (!this.ctx.fork || this.run.eos_token_ids.includes(token_id)) return null;
    return () => this.ctx.fork({ step: node.column, token_id, node_id });
  }

  #whyOf({ column, data }) {
    if (!this.ctx.ask) return null;
    return () => this.ctx.ask?.({ step: column, node_id: data.node_id });
  }

  #toggle(owner, hide = !this.layout.hides(owner)) {
    if (!owner.badge) return;
    owner.fold = hide;
    this.#arrange();
  }

  #listen() {
    const canvas = this.canvas.node;
    const near = (event, query) => /** @type {any} */ (event.target.closest?.(query));
    const nodeOf = (event) => near(event, ".bt-node")?.dpNode ?? null;
    canvas.addEventListener("click", (e) => {
      if (this.viewport.dragged) return;
      const fold = near(e, ".bt-badge");
      const node = nodeOf(e);
      if (fold) this.#toggle(fold.dpOwner);
      else if (node) this.#goTo(node);
    });
    canvas.addEventListener("keydown", (e) => this.#press(e, nodeOf(e)));
    this.tip.listen(canvas, nodeOf, (node) =>
      this.tip.show(node.box, factsOf(this.run, node, this.#mates(node).length)),
    );
  }

  #goTo(node) {
    this.viewport.follow(false);
    this.#choose(node, true);
    this.ctx.select(node.column, node.data.node_id);
  }

  #press(event, node) {
    if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "f") {
      this.#toggle(node);
      this.#choose(node, true);
      return;
    }
    const stays = event.key === "Enter" || event.key === " ";
    const next = stays ? node : neighbour(this.forest, this.best, node, event.key);
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    this.#goTo(next);
  }

  /** @param {Run} run */
  select(run, index) {
    if (run !== this.run || !this.canvas.layers[index]) return;
    set(this.canvas.now, { x: LEFT + index * COLUMN - 6 });
    this.panels.state(run, this.forest, index);
    const wanted = run.node === null ? this.best[index] : this.forest.nodes.get(run.node);
    if (this.ended && wanted && this.chosen !== wanted) this.#choose(wanted);
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
