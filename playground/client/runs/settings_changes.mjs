// The line next to the status that says which settings have changed since the run.
import { el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { differences, sentenceOf } from "../forms/settings.mjs";
import { tabOf } from "../shell/strategy_tabs.mjs";

// Redraws the line of a stage, by the stage's key.
const lines = new Map();

export const settingsMoved = (key) => lines.get(key)?.();

/** @type {ViewSpec} */
export const since = {
  title: tr("Settings and run"),
  heading: false,
  /** @param {Context} ctx */
  mount(root, ctx) {
    const line = el("p", { class: "dp-since", role: "status" });
    root.append(line);
    let shown = null;
    const draw = () => {
      const tab = tabOf(ctx.strategy);
      const found = tab && shown?.form ? differences(shown.form, tab.ask()) : [];
      const text = sentenceOf(found);
      if (line.textContent !== text) line.textContent = text;
      root.parentElement.hidden = !text;
    };
    lines.set(ctx.strategy, draw);
    root.parentElement.hidden = true;
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
