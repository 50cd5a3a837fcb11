// A stage shows one run: the text, the player and the strategy's picture, next to them the selected
// step, and further views behind tabs. Changes are drawn once per animation frame.
import { createButton, el } from "../shared/dom.mjs";
import { findSelectedNode } from "../shared/record.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { Panels } from "./panels.mjs";
import { selectStep } from "./recordings.mjs";

/** @import { Recordings } from "./recordings.mjs" */

const HIDDEN_NOTE = tr(
  "This is about the whole run: it is here again when you have left the guessing.",
);

// The open question tab, kept from run to run.
let openQuestion = "";

/**
 * A view on its card. `run` is the one that it draws, `drawn` how many steps of it.
 * @typedef {object} Card
 * @property {string} name
 * @property {ViewSpec} spec
 * @property {View} view
 * @property {HTMLElement} empty
 * @property {HTMLElement} body
 * @property {number} drawn
 * @property {Run | null} run
 */

/** @typedef {{ strategy: string, visuals: string[], again?: () => void }} StageOptions */

/** @typedef {ReturnType<typeof createStageParts>} StageParts */

/**
 * @typedef {object} StageState
 * @property {HTMLElement} root
 * @property {Card[]} views
 * @property {Context} context
 * @property {Run | null} run
 * @property {number} drawn how many steps are drawn
 * @property {boolean} dirty whether a drawing is due
 * @property {((run: Run) => Run) | null} cover returns the run that is drawn in its place
 */

/** @typedef {StageOptions & StageState & Pick<StageParts, "head" | "panes" | "unfold">} Stage */

export class Stages {
  /** @type {Stage[]} */
  list = [];
  /** @type {Map<string, ViewSpec>} */
  #views = new Map();
  #store;

  /** @param {Recordings} store */
  constructor(store) {
    this.#store = store;
    store.watch({
      changed: (run) => this.#scheduleRun(run),
      active: (key) => this.#showActivity(key),
      restored: () => {
        for (const { views } of this.list) for (const view of views) view.drawn = 0;
      },
    });
    // Tabs cannot be opened on paper, so printing opens all of them.
    /** @type {(() => void)[]} */
    let undo = [];
    addEventListener("beforeprint", () => {
      undo = this.list.filter((s) => s.root.getClientRects().length).map((s) => this.unfold(s));
    });
    addEventListener("afterprint", () => {
      for (const fold of undo) fold();
    });
  }

  /**
   * Draw and show every part of a stage, including closed panels.
   * @param {Stage} stage
   * @returns {() => void} restores the panels that were open
   */
  unfold(stage) {
    const fold = stage.unfold();
    this.#paintStage(stage);
    return fold;
  }

  /** @param {Record<string, ViewSpec>} views */
  register(views) {
    for (const [name, view] of Object.entries(views)) this.#views.set(name, view);
  }

  /**
   * @param {HTMLElement} root
   * @param {StageOptions} options
   * @param {Context["trigger"]} trigger
   */
  mount(root, options, trigger) {
    if (this.list.some((s) => s.root === root && s.cover))
      this.#notifyCovered(options.strategy, false);
    this.list = this.list.filter((s) => s.root !== root && (s.root.isConnected || !s.run));
    const parts = createStageParts(root, () => this.#schedulePaint(stage));
    /**
     * The actions of views. The page's view that can fork a run sets `fork`.
     * @type {Context}
     */
    const context = {
      trigger,
      strategy: options.strategy,
      preview: null,
      again: options.again ?? null,
      select: (index, node) => {
        parts.look();
        this.#selectStep(stage, index, node);
      },
      cover: (cover) => this.#setCover(stage, cover),
      open: parts.open,
      present: () =>
        document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen(),
      fork: null,
    };
    const { head, panes, unfold } = parts;
    /** @type {Stage} */
    const stage = {
      ...{ root, ...options, head, panes, unfold, context },
      ...{ run: null, drawn: 0, views: [], dirty: false, cover: null },
    };
    const specs = options.visuals.flatMap((name) => {
      const spec = this.#views.get(name);
      return spec ? [{ name, spec }] : [];
    });
    const pictured = specs.some(({ spec }) => spec.picture);
    for (const { name, spec } of specs) {
      // A strategy without a picture shows the curve in its place.
      const place = spec.place === "drawer" && spec.curve && !pictured ? "main" : spec.place;
      stage.views.push(createCard(parts, name, spec, place ?? "main", context));
    }
    parts.finish();
    this.list.push(stage);
    if (this.#store.runId(options.strategy)) this.#schedulePaint(stage);
    if (this.#store.activity(options.strategy)) this.#showActivity(options.strategy);
  }

  /**
   * Show the selected step under other settings, or as it was recorded with null. Painted at once,
   * so that the picture follows a dial within one frame.
   * @param {string} strategy
   * @param {Preview | null} preview
   */
  setPreview(strategy, preview) {
    for (const stage of this.list.filter((s) => s.strategy === strategy)) {
      if (!preview && !stage.context.preview) continue;
      // A preview would give the covered steps away.
      stage.context.preview = stage.cover ? null : preview;
      this.#paintStage(stage);
    }
  }

  /**
   * @param {Stage} stage
   * @param {number} index
   * @param {number} [node]
   */
  #selectStep(stage, index, node) {
    if (!stage.run) return;
    if (!stage.cover) return this.#store.select(stage.run, index, node);
    // The store does not know the run that a stage draws as a cover.
    if (!stage.run.steps.length) return;
    selectStep(stage.run, index, node ?? null);
    this.#schedulePaint(stage);
  }

  /**
   * Draw another run in place of the current one, or the current one again with null. The views are
   * mounted again, so that hidden elements cannot give the covered steps away.
   * @param {Stage} stage
   * @param {((run: Run) => Run) | null} cover
   */
  #setCover(stage, cover) {
    const afresh = Boolean(cover) !== Boolean(stage.cover);
    stage.cover = cover;
    if (cover) stage.context.preview = null;
    if (afresh) {
      stage.context.fork = null;
      stage.context.ask = null;
      for (const shown of stage.views.filter((v) => !v.spec.covers)) remountView(shown, stage);
      if (this.#store.activity(stage.strategy)) this.#showActivity(stage.strategy);
      this.#notifyCovered(stage.strategy, Boolean(cover));
    }
    this.#schedulePaint(stage);
  }

  /**
   * @param {string} key
   * @param {boolean} on
   */
  #notifyCovered(key, on) {
    this.#store.tell("covered", { key, on });
  }

  /**
   * Shown without waiting for a frame, also before the first step is drawn.
   * @param {string} key
   */
  #showActivity(key) {
    for (const stage of this.list.filter((s) => s.strategy === key))
      for (const { view, body } of stage.views.filter((v) => v.view.active)) {
        body.hidden = false;
        view.active?.(this.#store.activity(key));
      }
  }

  /** @param {Run} run */
  #scheduleRun(run) {
    for (const stage of this.list)
      if (this.#store.runId(stage.strategy) === run.id) this.#schedulePaint(stage);
  }

  /**
   * Browsers pause animation frames of a page in the background.
   * @param {Stage} stage
   */
  #schedulePaint(stage) {
    if (stage.dirty) return;
    stage.dirty = true;
    const paint = () => {
      stage.dirty = false;
      this.#paintStage(stage);
    };
    if (document.hidden) setTimeout(paint, 200);
    else requestAnimationFrame(paint);
  }

  /** @param {Stage} stage */
  #paintStage(stage) {
    const shown = this.#store.shown(stage.strategy);
    const run = shown && stage.cover ? stage.cover(shown) : shown;
    if (!run || !stage.root.isConnected || !this.list.includes(stage)) return;
    stage.run = run;
    for (const view of stage.views.filter((v) => !v.body.closest("[hidden].dp-panel")))
      try {
        paintView(view, run);
      } catch (error) {
        // An error in one view must not stop the others.
        reportError(error);
      }
    stage.head.textContent = stepHeading(run);
    stage.panes.classList.toggle("filled", run.steps.length > 0);
    stage.drawn = run.steps.length;
  }
}

/**
 * @param {Card} shown
 * @param {Run} run
 */
function paintView(shown, run) {
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

/**
 * Mount a view again. A view of the whole run shows a note while steps are hidden.
 * @param {Card} shown
 * @param {Stage} stage
 */
function remountView(shown, { context, cover }) {
  const { spec, body } = shown;
  shown.view.clear();
  body.replaceChildren();
  Object.assign(shown, { run: null, drawn: 0 });
  if (cover && spec.whole) {
    body.append(el("p", { class: "dp-note" }, HIDDEN_NOTE));
    shown.view = { update() {}, select() {}, clear() {} };
  } else shown.view = spec.mount(body, context);
}

/** @param {Run} run */
function stepHeading(run) {
  const step = run.steps[run.selected ?? -1];
  if (!step) return tr("This step");
  const found = findSelectedNode(run, step);
  const ids = found ? [found.node.token_id] : step.emit;
  const words = ids.map((id) => tokenLabel(run, id)).join("");
  const place = { n: step.index + 1, total: run.steps.length };
  return words
    ? tr("Step {n} of {total} · “{words}”", { ...place, words })
    : tr("Step {n} of {total}", place);
}

/**
 * Create the parts of a stage. Empty parts are left out when it is finished.
 * @param {HTMLElement} root
 * @param {() => void} again
 */
function createStageParts(root, again) {
  const main = el("div", { class: "dp-main" });
  const step = el("aside", { class: "dp-step", "aria-label": tr("This step") });
  const panes = el("div", { class: "dp-panes" }, main, step);
  const head = el("h3", { class: "dp-step-head" }, tr("This step"));
  const leave = () => panes.classList.remove("looking");
  const close = createButton("✕", leave, {
    class: "dp-btn dp-step-close",
    "aria-label": tr("Close"),
  });
  const answers = new Panels(tr("Questions about this step"), {
    closed: false,
    opened: again,
    chosen: (name) => {
      openQuestion = name;
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
    // On a narrow screen the step opens over the text when a
    // token is chosen, but not while the visitor uses the player.
    look: () => {
      if (!main.querySelector(".dp-v-scrub")?.contains(document.activeElement))
        panes.classList.add("looking");
    },
    /** @param {string} name */
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
        answers.open(answers.names.includes(openQuestion) ? openQuestion : answers.names[0]);
      }
      if (drawer.names.length) main.append(el("div", { class: "dp-drawer" }, drawer.node));
      if (step.childElementCount < 2) step.remove();
    },
  };
}

/**
 * @param {StageParts} parts
 * @param {string} name
 * @param {ViewSpec} spec
 * @param {NonNullable<ViewSpec["place"]>} place
 * @param {Context} context
 * @returns {Card}
 */
function createCard(parts, name, spec, place, context) {
  const panels = place === "answers" || place === "drawer" ? parts[place] : null;
  const heading =
    spec.heading === false || panels ? null : el("h3", {}, renderTerms(spec.heading || spec.title));
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
