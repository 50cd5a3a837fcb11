// View of one sentence on what to look at in this run, and the page's extra controls.
import { el } from "../shared/dom.mjs";
import { tr } from "../shared/tr.mjs";

/**
 * @typedef {import("./figures.mjs").Offer} Offer
 * @param {() => Offer[]} [offers]
 * @param {string} [none] shown for a run that has no such sentence
 * @returns {ViewSpec}
 */
export const createLookView = (offers = () => [], none = "") => ({
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
        // The hint of a covered run is hidden, so nothing says that there is none.
        const shows = run.shows || (run.covered ? "" : none);
        if (sentence.textContent !== shows) sentence.textContent = shows;
        card.hidden = !shows && more.every((offer) => offer.node.hidden);
      },
      select() {},
      clear() {},
    };
  },
});
