// The runs that a strategy's tab shows again after a reload of the page.
import { ENDED_STATUSES } from "../forms/settings.mjs";
import { resumeJob } from "../jobs/job.mjs";
import { endedRunAt, findPendingAt, saveEndedRun } from "../jobs/pending_jobs.mjs";
import { store } from "../shell/page_state.mjs";
import { askWhenReady } from "../shell/questions.mjs";

/** @typedef {import("./strategy_tab.mjs").StrategyTab} StrategyTab */

/**
 * Resume the run that was active when the page was reloaded, and fill the form from it.
 * @param {StrategyTab} tab
 */
export function resumePending(tab) {
  const { name } = tab.strategy;
  /** @param {object} more */
  const send = (more) => tab.trigger("input", { strategy: name, ...more });
  if (!resumeJob(name, send, findPendingAt(name))) return;
  fillFromRun(tab, store.activity(name)?.run ?? "");
}

/**
 * Remember the latest ended run of a strategy, so that a reloaded page shows it again.
 * @param {string} name
 */
export function watchEnded(name) {
  store.watch({
    changed(run) {
      if (store.runId(name) === run.id && run.link && ENDED_STATUSES.includes(run.status))
        saveEndedRun(name, run.id);
    },
  });
}

/**
 * Show the latest ended run again, if the server still has it.
 * @param {StrategyTab} tab
 */
export async function restoreEnded(tab) {
  const { name } = tab.strategy;
  const id = endedRunAt(name);
  if (!id || store.busy(name)) return;
  const { state } = await askWhenReady({ action: "state", run: id });
  if (!state) return saveEndedRun(name, "");
  if (store.busy(name) || store.runId(name)) return;
  fillFromRun(tab, id);
  store.receive(state);
}

/**
 * @param {StrategyTab} tab
 * @param {string} id of a run that may not be there yet
 */
function fillFromRun(tab, id) {
  let filled = false;
  store.watch({
    changed: (run) => {
      if (filled || run.id !== id || !run.form) return;
      filled = true;
      tab.show(run.form);
    },
  });
}
