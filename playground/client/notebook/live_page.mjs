// Entry point of the page that a notebook's widget shows in a frame. It draws a run while it decodes, from
// the messages of the widget, and tells the widget what the reader chooses.

import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { toTrace } from "../../../visualizers/shared/record.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { addPlayBar } from "../../../visualizers/stage/page.mjs";
import { find, preparePage } from "../../../visualizers/stage/page_frame.mjs";
import { Stages } from "../../../visualizers/stage/stage.mjs";
import { PAGE_VIEWS, VIEWS } from "../../../visualizers/stage/views.mjs";
import { Store } from "../shell/store.mjs";

/**
 * What the page tells its widget: it is there, the run shall stop, or the index of the step that was
 * chosen, null while the newest one is shown.
 * @typedef {{ ready?: true, stop?: true, selected?: number | null }} Told
 */

/**
 * @param {object} given
 * @param {string} given.name of the run
 * @param {string} given.strategy
 * @param {string[]} given.visuals
 */
export function open({ name, strategy, visuals }) {
  preparePage(name, tr("Click a token to see how its step was decided."), null);
  const store = new Store();
  const stages = new Stages(store);
  stages.register(VIEWS);
  stages.mount(find(".dp-stage"), { strategy, visuals, unfolded: PAGE_VIEWS }, () => {});
  const stop = createButton(tr("Stop"), () => {
    stop.disabled = true;
    tellWidget({ stop: true });
  });
  const bar = el(
    "div",
    { class: "dp-card pg-play" },
    el("div", { class: "dp-scrub pl-bar" }, stop),
  );
  find(".dp-stage").before(bar);
  /** @type {number | null} */
  let chosen = null;
  store.watch({
    changed: (run) => {
      if (run.status !== "running" && !run.source) finish(store, run, bar);
      const selected = run.follow ? null : run.selected;
      if (selected !== chosen) tellWidget({ selected });
      chosen = selected;
    },
  });
  addEventListener("message", ({ source, data }) => {
    if (source !== parent) return;
    for (const text of data.texts) store.receive(text);
    const run = store.shown(strategy);
    // A frame that the notebook has moved begins again: the reader keeps the chosen step.
    if (run && data.selected !== null) store.select(run, data.selected);
  });
  tellWidget({ ready: true });
}

/** @param {Told} what */
const tellWidget = (what) => parent.postMessage(what, "*");

/**
 * Replace Stop by the player of a recorded run.
 * @param {Store} store
 * @param {Run} run that has ended
 * @param {HTMLElement} bar
 */
function finish(store, run, bar) {
  bar.remove();
  const { selected, node, offset, status } = run;
  run.source = { trace: toTrace(run), shown: run.shown };
  if (!run.steps.length) return;
  addPlayBar(store, run, status);
  store.select(run, selected ?? 0, node, offset);
}
