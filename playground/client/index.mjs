// Entry module of the page's scripts: the object that the page's elements call.
import { rescore } from "../../visualizers/beam_tree/rescore.mjs";
import { createPredictView } from "../../visualizers/predict/view.mjs";
import { setPlotlyUrl } from "../../visualizers/shared/plotly.mjs";
import { setFilterTitles } from "../../visualizers/shared/processors.mjs";
import { toTrace } from "../../visualizers/shared/record.mjs";
import { translateArrivals } from "../../visualizers/shared/server_text.mjs";
import { setGlossary } from "../../visualizers/shared/terms.mjs";
import { makeVisible, tokenLabel } from "../../visualizers/shared/text.mjs";
import { pageLanguage } from "../../visualizers/shared/tr.mjs";
import { createFiguresView } from "../../visualizers/stage/figures.mjs";
import { createLookView } from "../../visualizers/stage/look.mjs";
import { VIEWS } from "../../visualizers/stage/views.mjs";
import { changedSettings, findPreset } from "./forms/settings.mjs";
import { exportView } from "./inspect/export.mjs";
import { grammarView } from "./inspect/grammar_texts.mjs";
import { influenceView } from "./inspect/influence.mjs";
import { modelComparisonView } from "./inspect/model_comparison.mjs";
import { fetchTextProbability } from "./inspect/typed_probability.mjs";
import { whatIf } from "./inspect/what_if.mjs";
import { why } from "./inspect/why.mjs";
import { setPingAddress } from "./jobs/job.mjs";
import { connectFork, forkView } from "./runs/fork.mjs";
import { mountGallery } from "./runs/gallery.mjs";
import { copyLinkButton, openAddress, runAgainButton } from "./runs/links.mjs";
import { mountPasteAnswer } from "./runs/paste_answer.mjs";
import { mountPlayer } from "./runs/player.mjs";
import { setRecordedAddress } from "./runs/recorded_runs.mjs";
import { since } from "./runs/settings_changes.mjs";
import { scheduleAddressUpdate, updateAddress, watchUserInput } from "./shell/address.mjs";
import { mountFocusOrder } from "./shell/focus_order.mjs";
import { stages, store } from "./shell/page_state.mjs";
import { mountPlaces } from "./shell/places.mjs";
import { connectQuestions } from "./shell/questions.mjs";
import { mountSkipLink } from "./shell/skip_link.mjs";
import { getDeclaration, setDeclaration } from "./shell/spec.mjs";
import { mountStrategyStrip } from "./shell/strategy_strip.mjs";
import { getStrategyTab } from "./shell/strategy_tabs.mjs";
import { mountComparison } from "./tabs/compare.mjs";
import { compareObserverView } from "./tabs/compare_observer.mjs";
import { mountDraws } from "./tabs/draws.mjs";
import { mountLessons } from "./tabs/lessons.mjs";
import { mountStrategyTab } from "./tabs/strategy_tab.mjs";
import { mountTaste } from "./tabs/taste.mjs";
import { mountTune } from "./tabs/tune.mjs";
import { connectJudge, mountBench } from "./tabs/watermark_bench.mjs";

/** @type {Context["trigger"] | null} */
let bus = null;

stages.register({
  ...VIEWS,
  look: createLookView(() => [runAgainButton()]),
  predict: createPredictView(fetchTextProbability),
  since,
  figures: createFiguresView(() => [copyLinkButton()]),
  compare_watch: compareObserverView,
  family: forkView,
  beside: modelComparisonView,
  export: exportView,
  grammar: grammarView,
  looked: influenceView,
  what_if: whatIf,
  why,
});
store.watch({
  missed: (run) => bus?.("input", { run }),
  linked: (link) => link && requestAnimationFrame(updateAddress),
  changed(run) {
    // A preset's run shows the preset's hint.
    if (run.form && run.shows === undefined) run.shows = findPreset(run.form)?.shows ?? "";
    if (run.form && !run.changed) run.changed = changedSettings(run);
    scheduleAddressUpdate();
  },
  active: scheduleAddressUpdate,
});

// Gradio sets <html lang> to the browser's language, which may differ from the page's.
function setDocumentLanguage() {
  const root = document.documentElement;
  const name = () => {
    if (root.lang !== pageLanguage()) root.lang = pageLanguage();
  };
  new MutationObserver(name).observe(root, { attributeFilter: ["lang"] });
  name();
}

export const page = {
  /**
   * The page's head calls this once, before any element, with the server's data.
   * @param {{ recorded: string, spec: any, plotly: string, here: string, refusals: any }} data
   */
  open({ recorded, spec, plotly, here, refusals }) {
    setDocumentLanguage();
    translateArrivals(document.documentElement);
    setPingAddress(here);
    setPlotlyUrl(new URL(plotly, document.baseURI).href);
    setGlossary(spec.terms);
    setFilterTitles(spec.filters);
    setDeclaration(spec, refusals);
    setRecordedAddress(new URL(recorded, document.baseURI).href);
    watchUserInput();
    mountPlaces(location.search);
    mountStrategyStrip();
    mountSkipLink();
    mountFocusOrder();
    openAddress(location.search);
    return page;
  },
  /** @param {Context["trigger"]} trigger */
  connect(trigger) {
    bus = trigger;
    return { receive: (/** @type {string} */ text) => page.receive(text) };
  },
  connected: () => bus !== null,
  /** @param {string} text */
  receive: (text) => store.receive(text),
  tab: mountStrategyTab,
  draws: mountDraws,
  lessons: mountLessons,
  bench: mountBench,
  pasteAnswer: mountPasteAnswer,
  taste: mountTaste,
  tune: mountTune,
  gallery: mountGallery,
  judge: connectJudge,
  ask: connectQuestions,
  family: connectFork,
  /**
   * @param {HTMLElement} root
   * @param {Context["trigger"]} trigger
   */
  compare: (root, trigger) => mountComparison(root, getDeclaration(), trigger),
  player: mountPlayer,
  // For the tests and the browser's console.
  tabOf: getStrategyTab,
  runs: store.runs,
  get stages() {
    return stages.list;
  },
  runId: store.runId,
  activity: store.activity,
  shown: store.shown,
  /** @type {typeof store.select} */
  select: (...given) => store.select(...given),
  /** @type {typeof store.show} */
  show: (...given) => store.show(...given),
  /** @type {typeof store.showTrace} */
  showTrace: (...given) => store.showTrace(...given),
  /** @type {typeof store.rewind} */
  rewind: (...given) => store.rewind(...given),
  trace: toTrace,
  piece: tokenLabel,
  visible: makeVisible,
  rescore,
};
