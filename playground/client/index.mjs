// What the elements of the page call: the one entry into its scripts.
import { rescore } from "../../visualizers/beam_tree/rescore.mjs";
import { plotlyFrom } from "../../visualizers/shared/plotly.mjs";
import { trace } from "../../visualizers/shared/record.mjs";
import { piece, visible } from "../../visualizers/shared/text.mjs";
import { scrubWith } from "../../visualizers/stage/scrub.mjs";
import { VIEWS } from "../../visualizers/stage/views.mjs";
import { connectAsk } from "./ask.mjs";
import { connectJudge, mountBench } from "./bench.mjs";
import { compare } from "./compare.mjs";
import { compareWatch } from "./compare_watch.mjs";
import { mountDraws } from "./draws.mjs";
import { exporting } from "./export.mjs";
import { connectFamily, family } from "./family.mjs";
import { mountGallery } from "./gallery.mjs";
import { copying, restore } from "./link.mjs";
import { player } from "./player.mjs";
import { answersAt } from "./press.mjs";
import { stages, store } from "./runs.mjs";
import { declare, declared } from "./spec.mjs";
import { mountTab, tabOf } from "./tab.mjs";
import { whatIf } from "./what_if.mjs";
import { why } from "./why.mjs";

let bus = null;

stages.register({
  ...VIEWS,
  scrub: scrubWith(() => [copying()]),
  compare_watch: compareWatch,
  family,
  export: exporting,
  what_if: whatIf,
  why,
});
store.watch({
  missed: (run) => bus?.("input", { run }),
  linked: (link) => history.replaceState(null, "", link),
});

// The chosen tab is in sight, however long the row.
addEventListener("click", ({ target }) => {
  const tab = target instanceof Element && target.closest("#strategies [role=tab]");
  if (tab) tab.scrollIntoView({ block: "nearest", inline: "center" });
});

export const page = {
  // Called once, before any element: what the server gives every page.
  open({ recorded, key, spec, plotly, here }) {
    answersAt(here);
    plotlyFrom(new URL(plotly, document.baseURI).href);
    declare(spec);
    if (recorded) store.showTrace(key, recorded, "recorded");
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
  bench: mountBench,
  gallery: mountGallery,
  judge: connectJudge,
  ask: connectAsk,
  family: connectFamily,
  compare: (root, trigger) => compare(root, declared(), trigger),
  player,
  // The store as the tests and whoever opens the console see it.
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
