// Entry point of a saved page with one run. The page contains all data; no server is needed.

import { el } from "../shared/dom.mjs";
import { setFilterTitles } from "../shared/processors.mjs";
import { addTemplates } from "../shared/server_text.mjs";
import { setGlossary } from "../shared/terms.mjs";
import { tr } from "../shared/tr.mjs";
import { PlayBar } from "./play.mjs";
import { Recordings } from "./recordings.mjs";
import { Stages } from "./stage.mjs";
import { PAGE_VIEWS, VIEWS } from "./views.mjs";

/**
 * An element that is part of every saved page.
 * @param {string} selector
 * @returns {HTMLElement}
 */
function find(selector) {
  const node = document.querySelector(selector);
  if (!(node instanceof HTMLElement)) throw new Error(selector);
  return node;
}

/**
 * @param {object} given
 * @param {Recorded} given.recorded
 * @param {string[]} given.visuals
 * @param {boolean} given.dark
 * @param {{ shows?: string, changed?: [string, string][], selected?: number, maps?: Run["maps"] }} [given.about]
 *   details that are not part of the trace
 */
export function open({ recorded, visuals, dark, about = {} }) {
  const { strategy, seed, served, model } = recorded.trace;
  addTemplates(recorded.templates);
  setGlossary(JSON.parse(find("#terms").textContent ?? ""));
  setFilterTitles(JSON.parse(find("#filters").textContent ?? ""));
  const name = served
    ? tr("An answer of {model}", { model: model.id })
    : tr("{strategy}, seed {seed}", { strategy, seed });
  document.documentElement.classList.toggle("dark", dark);
  document.title = name;
  find("h1").textContent = name;
  find(".dp-head p").textContent = tr("Every picture is drawn from the record in this file.");
  const recordings = new Recordings();
  const stages = new Stages(recordings);
  stages.register(VIEWS);
  stages.mount(find(".dp-stage"), { strategy, visuals, unfolded: PAGE_VIEWS }, () => {});
  const run = recordings.showTrace(strategy, recorded, "replayed");
  const { shows, changed, maps, selected = run.selected ?? 0 } = about;
  Object.assign(run, { shows, changed, maps });
  addPlayBar(recordings, run);
  recordings.select(run, selected);
}

/**
 * Add the player above the stage.
 * @param {Recordings} recordings
 * @param {Run} run
 */
function addPlayBar(recordings, run) {
  const bar = new PlayBar((count) => recordings.rewind(run, count, "replayed"));
  const stage = find(".dp-stage");
  stage.before(el("div", { class: "dp-card pg-play" }, bar.node));
  document.addEventListener("keydown", (event) => bar.press(event));
  recordings.watch({ covered: ({ on }) => bar.hold(on) });
  bar.load(run.steps.length);
}
