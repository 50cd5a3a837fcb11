// The views of a strategy's tab: those of its runs, or those of a run or a model that a server computed.
import { stages, store } from "../shell/page_state.mjs";
import { getDeclaration } from "../shell/spec.mjs";
import { nameKeptTokens } from "./related_runs.mjs";

store.watch({ changed: nameKeptTokens });

/**
 * Mount a stage with the views of the run that it shows, and mount it again for a run of the other kind.
 * @param {HTMLElement} root
 * @param {import("../../../visualizers/stage/stage.mjs").StageOptions} options
 * @param {Context["trigger"]} trigger
 */
export function mountRunViews(root, options, trigger) {
  const key = options.strategy;
  let kind = "here";
  const mount = () => {
    stages.mount(root, { ...options, visuals: viewsOf(kind, options.visuals) }, trigger);
  };
  const follow = () => {
    const run = store.shown(key);
    if (!run?.fields || kindOf(run) === kind) return;
    kind = kindOf(run);
    mount();
  };
  mount();
  store.watch({ changed: (run) => run.id === store.runId(key) && follow() });
}

/** @param {Run} run */
const kindOf = (run) => (run.served ? "served" : run.model.host ? "on server" : "here");

/**
 * @param {string} kind
 * @param {string[]} visuals those of a run whose model is on this machine
 */
function viewsOf(kind, visuals) {
  const { served_views, model_views } = getDeclaration();
  if (kind === "served") return served_views;
  // Its record is whole, but nothing can be asked of its model.
  return kind === "here" ? visuals : visuals.filter((name) => !model_views.includes(name));
}
