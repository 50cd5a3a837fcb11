// One stage per strategy tab: mounts the views and redraws what changed, once per animation frame.
import { el } from "../shared/dom.mjs";

export class Stages {
  list = [];
  #views = new Map();
  #store;

  constructor(store) {
    this.#store = store;
    store.watch({
      changed: (run) => this.#draw(run),
      restored: () => {
        for (const stage of this.list) stage.drawn = 0;
      },
    });
  }

  register(views) {
    for (const [name, view] of Object.entries(views)) this.#views.set(name, view);
  }

  mount(root, options, trigger) {
    this.list = this.list.filter((s) => s.root !== root && (s.root.isConnected || !s.run));
    const stage = { root, ...options, drawn: 0, run: null, views: [], dirty: false };
    // What a view may do; the view that can continue a run puts its way to do so here.
    const context = {
      trigger,
      strategy: options.strategy,
      select: (index) => this.#store.select(stage.run, index),
      fork: null,
    };
    root.replaceChildren();
    for (const name of options.visuals) {
      const spec = this.#views.get(name);
      if (spec) stage.views.push(card(root, name, spec, context));
    }
    this.list.push(stage);
    if (this.#store.runId(options.strategy)) this.#schedule(stage);
  }

  /** @param {Run} run */
  #draw(run) {
    for (const stage of this.list)
      if (this.#store.runId(stage.strategy) === run.id) this.#schedule(stage);
  }

  // A page in the background gets no frames.
  #schedule(stage) {
    if (stage.dirty) return;
    stage.dirty = true;
    const paint = () => {
      stage.dirty = false;
      this.#paint(stage);
    };
    if (document.hidden) setTimeout(paint, 200);
    else requestAnimationFrame(paint);
  }

  #paint(stage) {
    const run = this.#store.shown(stage.strategy);
    if (!run || !stage.root.isConnected || !this.list.includes(stage)) return;
    if (stage.run !== run || run.steps.length < stage.drawn) {
      stage.run = run;
      stage.drawn = 0;
      for (const { view } of stage.views) view.clear();
    }
    for (const { name, view, empty, body } of stage.views) {
      empty.hidden = run.steps.length > 0 || name === "status";
      body.hidden = !empty.hidden;
      view.update(run, stage.drawn);
      if (run.selected !== null) view.select(run, run.selected);
    }
    stage.drawn = run.steps.length;
  }
}

function card(root, name, spec, context) {
  const heading = spec.heading === false ? null : el("h3", {}, spec.title);
  const attrs = {
    class: `dp-card dp-v-${name}${spec.wide ? " wide" : ""}`,
    "aria-label": spec.title,
  };
  const empty = el("p", { class: "dp-empty" }, spec.empty || "");
  const body = el("div", {});
  root.append(el("section", attrs, heading, empty, body));
  const view = spec.mount(body, context);
  body.hidden = true;
  return { name, view, empty, body };
}
