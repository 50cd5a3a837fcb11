// The views of a strategy's tab: those of its runs, or those of a run that a server computed.
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
  let served = false;
  const mount = () => {
    const visuals = served ? getDeclaration().served_views : options.visuals;
    stages.mount(root, { ...options, visuals }, trigger);
  };
  const follow = () => {
    const run = store.shown(key);
    if (!run?.fields || Boolean(run.served) === served) return;
    served = !served;
    mount();
  };
  mount();
  store.watch({ changed: (run) => run.id === store.runId(key) && follow() });
}
