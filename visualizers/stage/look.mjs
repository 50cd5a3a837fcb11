// View of one sentence on what to look at in this run, and the page's extra controls.
import { el } from "../shared/dom.mjs";
import { tr } from "../shared/tr.mjs";
import { HIDDEN_NOTE } from "./stage.mjs";

const NONE_TEXT = tr("This run has no hint. The examples under “Try” have one.");

/**
 * What a panel shows in place of a hint, which may give hidden steps away.
 * @param {Run} run
 */
const missingText = (run) => (run.covered ? HIDDEN_NOTE : NONE_TEXT);

/**
 * @typedef {import("./figures.mjs").Offer} Offer
 * @param {() => Offer[]} [offers]
 * @returns {ViewSpec}
 */
export const createLookView = (offers = () => []) => ({
  title: tr("What to look at"),
  heading: false,
  place: "drawer",
  mount(root) {
    const sentence = el("p", { class: "dp-hint" });
    const more = offers();
    root.append(sentence, ...more.map((offer) => offer.node));
    const card = root.parentElement ?? root;
    root.classList.add("dp-hint-row");
    card.hidden = true;
    return {
      update(run) {
        for (const offer of more) offer.update(run);
        const shows = run.shows || (root.closest(".dp-panel") ? missingText(run) : "");
        if (sentence.textContent !== shows) sentence.textContent = shows;
        card.hidden = !shows && more.every((offer) => offer.node.hidden);
      },
      select() {},
      clear() {},
    };
  },
});
