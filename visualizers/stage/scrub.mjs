// View with the number of the selected word, and buttons to the words next to it.
import { createButton, el } from "../shared/dom.mjs";
import { findSelectedWord, listWords, moveWord } from "../shared/record.mjs";
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
    const by = (distance) => () => current && moveWord(current, ctx, distance);
    const label = el("output", {});
    /** @type {(sign: string, distance: number, name: string) => HTMLElement} */
    const arrow = (sign, distance, name) =>
      createButton(sign, by(distance), { "aria-label": name, class: "dp-btn dp-quiet" });
    root.append(
      el(
        "div",
        { class: "dp-scrub" },
        arrow("‹", -1, tr("Previous word")),
        label,
        arrow("›", 1, tr("Next word")),
      ),
    );
    return {
      update(run) {
        current = run;
        // Before the first step, or while it is guessed, there is no word to go to.
        root.hidden = !run.steps.length;
      },
      select(run, index) {
        // A pass of masked diffusion writes words anywhere, and its picture has a slider for passes.
        root.hidden = run.steps[index]?.detail?.kind === "fill";
        const [word, words] = [findSelectedWord(run), listWords(run).length];
        label.textContent =
          word < 0
            ? tr("Step {n} of {total}", { n: index + 1, total: run.steps.length })
            : tr("Word {n} of {total}", { n: word + 1, total: words });
      },
      clear() {},
    };
  },
};
