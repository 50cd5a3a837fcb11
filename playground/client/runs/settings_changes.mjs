// The line next to the status that says which settings have changed since the run.
import { el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { changesSentence, describeDifferences } from "../forms/settings.mjs";
import { getStrategyTab } from "../shell/strategy_tabs.mjs";

// Redraws the line of a stage, by the stage's key.
/** @type {Map<string, () => void>} */
const redrawByKey = new Map();

/** @param {string} key */
export const updateSettingsLine = (key) => redrawByKey.get(key)?.();

/** @type {ViewSpec} */
export const since = {
  title: tr("Settings and run"),
  heading: false,
  mount(root, ctx) {
    const line = el("p", { class: "dp-settings-changes", role: "status" });
    root.append(line);
    const box = root.parentElement ?? root;
    /** @type {Run | null} */
    let shown = null;
    const draw = () => {
      const tab = getStrategyTab(ctx.strategy);
      const found = tab && shown?.form ? describeDifferences(shown.form, tab.ask()) : [];
      const text = changesSentence(found);
      if (line.textContent !== text) line.textContent = text;
      box.hidden = !text;
    };
    redrawByKey.set(ctx.strategy, draw);
    box.hidden = true;
    return {
      update(run) {
        if (run === shown) return;
        shown = run;
        draw();
      },
      select() {},
      clear() {},
    };
  },
};
