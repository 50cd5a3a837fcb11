// View of a page without a server, in place of the answers why a token was chosen.
import { el } from "../shared/dom.mjs";
import { tr } from "../shared/tr.mjs";

const WHY_TEXT = tr(
  "Why a token was taken, and why another was not, is answered where the model is: open this run's trace in the playground and ask there.",
);

/** @type {ViewSpec} */
export const whyNote = {
  title: tr("Why"),
  place: "answers",
  mount(root) {
    root.append(el("p", { class: "dp-note" }, WHY_TEXT));
    return { update() {}, select() {}, clear() {} };
  },
};
