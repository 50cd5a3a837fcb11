// Entry point of a saved page with one run. The page contains all data; no server is needed.

import { el } from "../shared/dom.mjs";
import { addTemplates } from "../shared/server_text.mjs";
import { tr } from "../shared/tr.mjs";
import { find, preparePage } from "./page_frame.mjs";
import { PlayBar } from "./play.mjs";
import { Recordings } from "./recordings.mjs";
import { Stages } from "./stage.mjs";
import { PAGE_VIEWS, VIEWS } from "./views.mjs";

/**
 * @param {object} given
 * @param {Recorded} given.recorded
 * @param {string[]} given.visuals
 * @param {boolean | null} given.dark null for the colours around the page's frame
 * @param {{ shows?: string, changed?: [string, string][], selected?: number, maps?: Run["maps"], grid?: Run["grid"], grammar_texts?: Run["grammar_texts"] }} [given.about]
 *   details that are not part of the trace
 */
export function open({ recorded, visuals, dark, about = {} }) {
  const { strategy, seed, served, model } = recorded.trace;
  addTemplates(recorded.templates);
  const name = served
    ? tr("An answer of {model}", { model: model.id })
    : tr("{strategy}, seed {seed}", { strategy, seed });
  preparePage(name, tr("Every picture is drawn from the record in this file."), dark);
  const recordings = new Recordings();
  const stages = new Stages(recordings);
  stages.register(VIEWS);
  stages.mount(find(".dp-stage"), { strategy, visuals, unfolded: PAGE_VIEWS }, () => {});
  const run = recordings.showTrace(strategy, recorded, "replayed");
  const { selected = run.selected ?? 0, ...details } = about;
  Object.assign(run, details);
  addPlayBar(recordings, run, "replayed");
  recordings.select(run, selected);
}

/**
 * Add the player above the stage.
 * @param {Recordings} recordings
 * @param {Run} run with its record as `source`
 * @param {Status} status of the run when all of its steps are shown
 */
export function addPlayBar(recordings, run, status) {
  const bar = new PlayBar((count) => recordings.rewind(run, count, status));
  const stage = find(".dp-stage");
  stage.before(el("div", { class: "dp-card pg-play" }, bar.node));
  document.addEventListener("keydown", (event) => bar.press(event));
  recordings.watch({ covered: ({ on }) => bar.hold(on) });
  bar.load(run.steps.length);
}
