// One stage a run: the text, the player and the strategy's picture, beside them the chosen step, and
// behind tabs what is looked at now and then. What has changed is drawn once per animation frame.
import { button, el } from "../shared/dom.mjs";
import { nodeOf } from "../shared/record.mjs";
import { told } from "../shared/terms.mjs";
import { piece } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { Panels } from "./panels.mjs";
import { lookAt } from "./recordings.mjs";

const WAITS = tr("This is about the whole run: it is here again when you have left the guessing.");

// The question somebody looks into stays the same from run to run.
let asked = "";

export class Stages {
  list = [];
  #views = new Map();
  #store;

  constructor(store) {
    this.#store = store;
    store.watch({
      changed: (run) => this.#draw(run),
      active: (key) => this.#say(key),
      restored: () => {
        for (const stage of this.list) for (const view of stage.views) view.drawn = 0;
      },
    });
    // On paper nothing can be opened.
    let undo = [];
    addEventListener("beforeprint", () => {
      undo = this.list.filter((s) => s.root.getClientRects().length).map((s) => this.unfold(s));
    });
    addEventListener("afterprint", () => {
      for (const fold of undo) fold();
    });
  }

  /**
   * Draw and show everything that a stage has, its step and every panel.
   * @returns {() => void} what makes it as it was again
   */
  unfold(stage) {
    const fold = stage.unfold();
    this.#paint(stage);
    return fold;
  }

  register(views) {
    for (const [name, view] of Object.entries(views)) this.#views.set(name, view);
  }

  mount(root, options, trigger) {
    if (this.list.some((s) => s.root === root && s.cover)) this.#covered(options.strategy, false);
    this.list = this.list.filter((s) => s.root !== root && (s.root.isConnected || !s.run));
    const stage = { root, ...options, drawn: 0, run: null, views: [], dirty: false, cover: null };
    const parts = partsOf(root, () => this.#schedule(stage));
    Object.assign(stage, { head: parts.head, panes: parts.panes, unfold: parts.unfold });
    // What a view may do; the view that can continue a run puts its way to do so here.
    const context = {
      trigger,
      strategy: options.strategy,
      again: options.again ?? null,
      select: (index, node) => {
        parts.look();
        this.#select(stage, index, node);
      },
      cover: (cover) => this.#cover(stage, cover),
      open: parts.open,
      present: () =>
        document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen(),
      fork: null,
    };
    const specs = options.visuals
      .map((name) => [name, this.#views.get(name)])
      .filter(([, spec]) => spec);
    const pictured = specs.some(([, spec]) => spec.picture);
    for (const [name, spec] of specs) {
      // Without a picture of its own, what is said about the whole text takes its place.
      const place = spec.place === "drawer" && spec.curve && !pictured ? "main" : spec.place;
      stage.views.push(card(parts, name, spec, place ?? "main", context));
    }
    stage.context = context;
    parts.finish();
    this.list.push(stage);
    if (this.#store.runId(options.strategy)) this.#schedule(stage);
    if (this.#store.activity(options.strategy)) this.#say(options.strategy);
  }

  #select(stage, index, node) {
    if (!stage.cover) return this.#store.select(stage.run, index, node);
    // Of what a stage draws in place of the run nobody else knows.
    if (!stage.run?.steps.length) return;
    lookAt(stage.run, index, node ?? null);
    this.#schedule(stage);
  }

  /**
   * Draw another run in place of the one that is shown. What has been drawn of that one does not stay
   * anywhere, hidden or not, so the views are made anew.
   * @param {((run: Run) => Run) | null} cover
   */
  #cover(stage, cover) {
    const afresh = Boolean(cover) !== Boolean(stage.cover);
    stage.cover = cover;
    if (afresh) {
      stage.context.fork = null;
      stage.context.ask = null;
      for (const shown of stage.views.filter((v) => !v.spec.covers)) remake(shown, stage);
      if (this.#store.activity(stage.strategy)) this.#say(stage.strategy);
      this.#covered(stage.strategy, Boolean(cover));
    }
    this.#schedule(stage);
  }

  #covered(key, on) {
    this.#store.tell("covered", { key, on });
  }

  // Said at once, also where nothing is drawn yet: no frame is waited for.
  #say(key) {
    for (const stage of this.list.filter((s) => s.strategy === key))
      for (const { view, body } of stage.views.filter((v) => v.view.active)) {
        body.hidden = false;
        view.active(this.#store.activity(key));
      }
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
    const shown = this.#store.shown(stage.strategy);
    const run = shown && stage.cover ? stage.cover(shown) : shown;
    if (!run || !stage.root.isConnected || !this.list.includes(stage)) return;
    stage.run = run;
    for (const view of stage.views.filter((v) => !v.body.closest("[hidden].dp-panel")))
      try {
        paint(view, run);
      } catch (error) {
        // A picture that fails leaves the others standing; the fault is still reported.
        reportError(error);
      }
    stage.head.textContent = headOf(run);
    stage.panes.classList.toggle("filled", run.steps.length > 0);
    stage.drawn = run.steps.length;
  }
}

/** @param {Run} run */
function paint(shown, run) {
  if (shown.run !== run || run.steps.length < shown.drawn) {
    shown.run = run;
    shown.drawn = 0;
    shown.view.clear();
  }
  const { view, empty, body } = shown;
  empty.hidden = run.steps.length > 0 || !empty.textContent;
  body.hidden = !empty.hidden;
  view.update(run, shown.drawn);
  if (run.selected !== null) view.select(run, run.selected);
  shown.drawn = run.steps.length;
}

// A view as on the first day; of the whole run it says where it has gone while that is not to be seen.
function remake(shown, { context, cover }) {
  const { spec, body } = shown;
  shown.view.clear();
  body.replaceChildren();
  Object.assign(shown, { run: null, drawn: 0 });
  if (cover && spec.whole) {
    body.append(el("p", { class: "dp-note" }, WAITS));
    shown.view = { update() {}, select() {}, clear() {} };
  } else shown.view = spec.mount(body, context);
}

/** @param {Run} run */
function headOf(run) {
  const step = run.steps[run.selected];
  if (!step) return tr("This step");
  const found = nodeOf(run, step);
  const ids = found ? [found.node.token_id] : step.emit;
  const words = ids.map((id) => piece(run, id)).join("");
  const place = { n: run.selected + 1, total: run.steps.length };
  return words
    ? tr("Step {n} of {total} · “{words}”", { ...place, words })
    : tr("Step {n} of {total}", place);
}

// The places of a stage: what stands in them only when something does.
function partsOf(root, again) {
  const main = el("div", { class: "dp-main" });
  const step = el("aside", { class: "dp-step", "aria-label": tr("This step") });
  const panes = el("div", { class: "dp-panes" }, main, step);
  const head = el("h3", { class: "dp-step-head" }, tr("This step"));
  const leave = () => panes.classList.remove("looking");
  const close = button("✕", leave, { class: "dp-btn dp-step-close", "aria-label": tr("Close") });
  const answers = new Panels(tr("Questions about this step"), {
    closed: false,
    opened: again,
    chosen: (name) => {
      asked = name;
    },
  });
  const drawer = new Panels(tr("More about this run"), { closed: true, opened: again });
  step.append(el("div", { class: "dp-step-top" }, head, close));
  step.addEventListener("keydown", (event) => event.key === "Escape" && leave());
  root.replaceChildren(panes);
  return {
    panes,
    main,
    step,
    answers,
    drawer,
    head,
    // Where the step has no room beside the text it comes up when something is chosen, but not
    // while somebody walks through the steps.
    look: () => {
      if (!main.querySelector(".dp-v-scrub")?.contains(document.activeElement))
        panes.classList.add("looking");
    },
    open: (name) => {
      for (const panels of [answers, drawer]) if (panels.names.includes(name)) panels.open(name);
    },
    unfold: () => {
      const looking = panes.classList.contains("looking");
      panes.classList.add("looking");
      const fold = [answers, drawer].map((panels) => panels.unfold());
      return () => {
        for (const again of fold) again();
        panes.classList.toggle("looking", looking);
      };
    },
    finish: () => {
      if (answers.names.length) {
        step.append(answers.node);
        answers.open(answers.names.includes(asked) ? asked : answers.names[0]);
      }
      if (drawer.names.length) main.append(el("div", { class: "dp-drawer" }, drawer.node));
      if (step.childElementCount < 2) step.remove();
    },
  };
}

function card(parts, name, spec, place, context) {
  const panels = { answers: parts.answers, drawer: parts.drawer }[place];
  const heading =
    spec.heading === false || panels ? null : el("h3", {}, told(spec.heading || spec.title));
  const attrs = {
    class: `dp-card dp-v-${name}${spec.picture || spec.curve ? " dp-picture" : ""}`,
    "aria-label": spec.title,
  };
  const empty = el("p", { class: "dp-empty" }, spec.empty || "");
  const body = el("div", {});
  const box = el("section", attrs, heading, empty, body);
  if (panels) panels.add(name, spec.tab ?? spec.title, box);
  else (place === "step" ? parts.step : parts.main).append(box);
  const view = spec.mount(body, context);
  body.hidden = true;
  return { name, spec, view, empty, body, drawn: 0, run: null };
}
