// View with a slider over the steps of a run.
import { createButton, el } from "../shared/dom.mjs";
import { tr } from "../shared/tr.mjs";

/** @type {ViewSpec} */
export const scrub = {
  title: tr("Player"),
  heading: false,
  /** @param {Context} ctx */
  mount(root, ctx) {
    /** @type {Run | null} */
    let current = null;
    /** @param {number} distance */
    const by = (distance) => () => current && ctx.select((current.selected ?? 0) + distance);
    const range = el("input", {
      type: "range",
      min: 0,
      value: 0,
      "aria-label": tr("Step"),
      oninput: () => ctx.select(+range.value),
    });
    const label = el("output", {});
    /** @type {(sign: string, distance: number, name: string) => HTMLElement} */
    const arrow = (sign, distance, name) =>
      createButton(sign, by(distance), { "aria-label": name, class: "dp-btn dp-quiet" });
    root.append(
      el(
        "div",
        { class: "dp-scrub" },
        arrow("‹", -1, tr("Previous step")),
        label,
        arrow("›", 1, tr("Next step")),
        range,
      ),
    );
    return {
      update(run) {
        current = run;
        range.max = String(Math.max(0, run.steps.length - 1));
      },
      select(run, index) {
        range.value = String(index);
        label.textContent = tr("step {n} of {total}", { n: index + 1, total: run.steps.length });
      },
      clear() {},
    };
  },
};
