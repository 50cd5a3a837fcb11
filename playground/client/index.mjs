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
import { changedIn, presetOf } from "./forms/settings.mjs";
import { exporting } from "./inspect/export.mjs";
import { looked } from "./inspect/influence.mjs";
import { beside } from "./inspect/model_comparison.mjs";
import { oddsOf } from "./inspect/typed_probability.mjs";
import { whatIf } from "./inspect/what_if.mjs";
import { why } from "./inspect/why.mjs";
import { connectFamily, family } from "./runs/fork.mjs";
import { mountGallery } from "./runs/gallery.mjs";
import { copying, restore, runningAgain } from "./runs/links.mjs";
import { player } from "./runs/player.mjs";
import { answersAt } from "./runs/press.mjs";
import { recordedFrom } from "./runs/recorded_runs.mjs";
import { since } from "./runs/settings_changes.mjs";
import { follow, followNow, watchAddress } from "./shell/address.mjs";
import { stages, store } from "./shell/page_state.mjs";
import { connectAsk } from "./shell/questions.mjs";
import { declare, declared } from "./shell/spec.mjs";
import { tabOf } from "./shell/strategy_tabs.mjs";
import { openTab } from "./shell/tab_navigation.mjs";
import { compare } from "./tabs/compare.mjs";
import { compareWatch } from "./tabs/compare_observer.mjs";
import { mountDraws } from "./tabs/draws.mjs";
import { mountLessons } from "./tabs/lessons.mjs";
import { mountTab } from "./tabs/strategy_tab.mjs";
import { mountTaste } from "./tabs/taste.mjs";
import { connectJudge, mountBench } from "./tabs/watermark_bench.mjs";

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
