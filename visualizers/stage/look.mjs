// View of one sentence on what to look at in this run, and the page's extra controls.
import { el } from "../shared/dom.mjs";
import { tr } from "../shared/tr.mjs";

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
        if (sentence.textContent !== (run.shows ?? "")) sentence.textContent = run.shows ?? "";
        card.hidden = !run.shows && more.every((offer) => offer.node.hidden);
      },
      select() {},
      clear() {},
    };
  },
});
