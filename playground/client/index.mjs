// Entry module of the page's scripts: the object that the page's elements call.
import { rescore } from "../../visualizers/beam_tree/rescore.mjs";
import { predictWith } from "../../visualizers/predict/view.mjs";
import { plotlyFrom } from "../../visualizers/shared/plotly.mjs";
import { trace } from "../../visualizers/shared/record.mjs";
import { explain } from "../../visualizers/shared/terms.mjs";
import { piece, visible } from "../../visualizers/shared/text.mjs";
import { spoken } from "../../visualizers/shared/tr.mjs";
import { lookWith } from "../../visualizers/stage/look.mjs";
import { scrubWith } from "../../visualizers/stage/scrub.mjs";
import { VIEWS } from "../../visualizers/stage/views.mjs";
import { follow, followNow, watchAddress } from "./address.mjs";
import { connectAsk } from "./ask.mjs";
import { connectJudge, mountBench } from "./bench.mjs";
import { beside } from "./beside.mjs";
import { compare } from "./compare.mjs";
import { compareWatch } from "./compare_watch.mjs";
import { mountDraws } from "./draws.mjs";
import { exporting } from "./export.mjs";
import { connectFamily, family } from "./family.mjs";
import { mountGallery } from "./gallery.mjs";
import { mountLessons } from "./lessons/tab.mjs";
import { copying, restore, runningAgain } from "./link.mjs";
import { looked } from "./looked.mjs";
import { oddsOf } from "./odds.mjs";
import { openTab } from "./open_tab.mjs";
import { player } from "./player.mjs";
import { answersAt } from "./press.mjs";
import { recordedFrom } from "./recorded.mjs";
import { stages, store } from "./runs.mjs";
import { changedIn, presetOf } from "./settings.mjs";
import { since } from "./since.mjs";
import { declare, declared } from "./spec.mjs";
import { mountTab } from "./tab.mjs";
import { tabOf } from "./tabs.mjs";
import { mountTaste } from "./taste.mjs";
import { whatIf } from "./what_if.mjs";
import { why } from "./why.mjs";

let bus = null;

stages.register({
  ...VIEWS,
  look: lookWith(() => [runningAgain()]),
  predict: predictWith(oddsOf),
  since,
  scrub: scrubWith(() => [copying()]),
  compare_watch: compareWatch,
  family,
  beside,
  export: exporting,
  looked,
  what_if: whatIf,
  why,
});
store.watch({
  missed: (run) => bus?.("input", { run }),
  linked: (link) => link && requestAnimationFrame(followNow),
  changed(run) {
    // A preset's run shows the preset's hint.
    if (run.form && run.shows === undefined) run.shows = presetOf(run.form)?.shows ?? "";
    if (run.form && !run.changed) run.changed = changedIn(run);
    follow();
  },
  active: follow,
});

// Scroll the chosen tab into view: the row of tabs may be wider than the window.
addEventListener("click", ({ target }) => {
  const tab = target instanceof Element && target.closest("#strategies [role=tab]");
  if (tab) tab.scrollIntoView({ block: "nearest", inline: "center" });
});

// The link next to the title opens the lessons, because their tab is the last of a long row.
addEventListener("click", (event) => {
  const lead = event.target instanceof Element && event.target.closest(".dp-lead");
  if (!lead || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  openTab("lessons");
});

// Gradio sets <html lang> to the browser's language, which may differ from the page's.
function nameLanguage() {
  const root = document.documentElement;
  const name = () => {
    if (root.lang !== spoken()) root.lang = spoken();
  };
  new MutationObserver(name).observe(root, { attributeFilter: ["lang"] });
  name();
}

export const page = {
  // The page's head calls this once, before any element, with the server's data.
  open({ recorded, spec, plotly, here, refusals }) {
    nameLanguage();
    answersAt(here);
    plotlyFrom(new URL(plotly, document.baseURI).href);
    explain(spec.terms);
    declare(spec, refusals);
    recordedFrom(new URL(recorded, document.baseURI).href);
    watchAddress();
    restore(location.search);
    return page;
  },
  connect(trigger) {
    bus = trigger;
    return { receive: (text) => page.receive(text) };
  },
  connected: () => bus !== null,
  receive: (text) => store.receive(text),
  tab: mountTab,
  draws: mountDraws,
  lessons: mountLessons,
  bench: mountBench,
  taste: mountTaste,
  gallery: mountGallery,
  judge: connectJudge,
  ask: connectAsk,
  family: connectFamily,
  compare: (root, trigger) => compare(root, declared(), trigger),
  player,
  // For the tests and the browser's console.
  tabOf,
  runs: store.runs,
  get stages() {
    return stages.list;
  },
  runId: store.runId,
  activity: store.activity,
  shown: store.shown,
  select: (run, index, node) => store.select(run, index, node),
  show: (key, run) => store.show(key, run),
  showTrace: (key, recorded, status) => store.showTrace(key, recorded, status),
  rewind: (run, count, status) => store.rewind(run, count, status),
  trace,
  piece,
  visible,
  rescore,
};
