// A stage shows one run in one column: the text, the picture of the selected step, and further views
// behind tabs. Changes are drawn once per animation frame.
import { el } from "../shared/dom.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { tr } from "../shared/tr.mjs";
import { Panels } from "./panels.mjs";
import { selectStep } from "./recordings.mjs";

/** @import { Recordings } from "./recordings.mjs" */

/** Shown in place of a view of the whole run while steps are hidden. */
export const HIDDEN_NOTE = tr(
  "This is about the whole run: it is here again when you have left the guessing.",
);

const AS_RUN_NOTE = tr("This is the run as it was. Press Run to see it with your settings.");

// The tab that holds all views for which the first row of tabs has no room.
const MORE = "more";
/** @type {{ answers: "doors", drawer: "deeper" }} */
const PANELS_BY_PLACE = { answers: "doors", drawer: "deeper" };

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

/**
 * @typedef {object} StageOptions
 * @property {string} strategy
 * @property {string[]} visuals names of its views, in order
 * @property {string[]} [unfolded] those of them that are in the column wherever they usually are
 * @property {() => void} [again] runs it again
 * @property {(dial: string, value: number) => void} [turn] sets a dial of its form
 * @property {Context["grids"]} [grids] fetches a map of two dials
 */

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

/** @typedef {StageOptions & StageState & Pick<StageParts, "main" | "unfold">} Stage */

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
      const shown = this.list.filter((s) => s.root.getClientRects().length);
      undo.push(...shown.map((s) => this.unfold(s)));
    });
    addEventListener("afterprint", () => {
      for (const fold of undo) fold();
      undo = [];
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
      turn: options.turn ?? null,
      grids: options.grids ?? null,
      select: (...given) => this.#selectStep(stage, ...given),
      cover: (cover) => this.#setCover(stage, cover),
      open: parts.open,
      present: () =>
        document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen(),
      fork: null,
    };
    const { main, unfold } = parts;
    /** @type {Stage} */
    const stage = {
      ...{ root, ...options, main, unfold, context },
      ...{ run: null, drawn: 0, views: [], dirty: false, cover: null },
    };
    const specs = options.visuals.flatMap((name) => {
      const spec = this.#views.get(name);
      return spec ? [{ name, spec }] : [];
    });
    const pictured = specs.some(({ spec }) => spec.picture);
    for (const { name, spec } of specs) {
      const usual = spec.place ?? (spec.fallback && pictured ? "drawer" : "main");
      const place = options.unfolded?.includes(name) ? "main" : usual;
      stage.views.push(createCard(parts, name, spec, place, context));
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
      stage.main.classList.toggle("tried", Boolean(stage.context.preview));
      this.#paintStage(stage);
    }
  }

  /**
   * @param {Stage} stage
   * @param {number} index
   * @param {number} [node]
   * @param {number | null} [offset]
   */
  #selectStep(stage, index, node, offset) {
    if (!stage.run) return;
    if (!stage.cover) return this.#store.select(stage.run, index, node, offset);
    // The store does not know the run that a stage draws as a cover.
    if (!stage.run.steps.length) return;
    selectStep(stage.run, index, node ?? null, offset ?? null);
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
    if (cover) {
      stage.context.preview = null;
      stage.main.classList.remove("tried");
    }
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
    // Until the first token of a new run arrives, the text before it stays, dimmed.
    const waiting =
      run.status === "running" && !run.steps.length && Boolean(stage.run?.steps.length);
    stage.main.classList.toggle("waiting", waiting);
    if (waiting) return;
    stage.run = run;
    for (const view of stage.views.filter((v) => !v.body.closest("[hidden].dp-panel")))
      try {
        paintView(view, run);
      } catch (error) {
        // An error in one view must not stop the others.
        reportError(error);
      }
    stage.main.classList.toggle("filled", run.steps.length > 0);
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

/**
 * Create the parts of a stage: the column, the row of tabs below it, and the row of tabs within its
 * last one. Empty rows are left out when it is finished.
 * @param {HTMLElement} root
 * @param {() => void} again
 */
function createStageParts(root, again) {
  const main = el("div", { class: "dp-main" });
  const doors = new Panels(tr("Questions about this step"), again);
  const deeper = new Panels(tr("More about this run"), again);
  root.replaceChildren(main);
  return {
    main,
    doors,
    deeper,
    /** @param {string} name */
    open: (name) => {
      if (deeper.names.includes(name)) {
        doors.open(MORE);
        deeper.open(name);
      } else if (doors.names.includes(name)) doors.open(name);
    },
    unfold: () => {
      const fold = [doors, deeper].map((panels) => panels.unfold());
      return () => {
        for (const again of fold) again();
      };
    },
    finish: () => {
      if (deeper.names.length) {
        doors.add(MORE, tr("More"), deeper.node);
        deeper.open(deeper.names[0]);
      }
      if (doors.names.length) main.append(el("div", { class: "dp-doors" }, doors.node));
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
  const panels = place === "main" ? null : parts[PANELS_BY_PLACE[place]];
  const heading =
    spec.heading === false || panels ? null : el("h3", {}, renderTerms(spec.heading || spec.title));
  const attrs = {
    class: `dp-card dp-v-${name}${spec.picture ? " dp-picture" : ""}`,
    "aria-label": spec.title,
  };
  const empty = el("p", { class: "dp-empty" }, spec.empty || "");
  const body = el("div", {});
  const box = el("section", attrs, heading, empty, body);
  if (spec.recorded) body.before(el("p", { class: "dp-note dp-as-run" }, AS_RUN_NOTE));
  if (panels) panels.add(name, spec.tab ?? spec.title, box);
  else parts.main.append(box);
  const view = spec.mount(body, context);
  body.hidden = true;
  return { name, spec, view, empty, body, drawn: 0, run: null };
}
