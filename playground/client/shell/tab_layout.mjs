// The layout of a tab: what is asked, the settings and the views.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

export const NARROW = matchMedia("(max-width: 799px)");

/** @typedef {HTMLElement | (HTMLElement | null | undefined)[]} Parts */

/**
 * Lay out a tab: its description, the form, the settings and the views. On a narrow screen the form
 * folds away behind a button; on a phone the settings come last.
 * @param {HTMLElement} root
 * @param {string} title
 * @param {string | HTMLElement[]} words the description
 * @param {{ top?: Parts | null, ask: Parts, right: Parts, settings: Parts }} parts
 *   top: stays above all others, such as the prompt with Run and the dials
 */
export function mountLayout(root, title, words, { top = null, ask, right, settings }) {
  const told = typeof words === "string" ? el("p", {}, words) : words;
  const about = el("div", { class: "dp-about" }, el("h2", {}, title), told);
  const server = el("a", { href: "./audit" }, tr("About this server"));
  const set = el(
    "div",
    { class: "dp-settings" },
    settings,
    el("p", { class: "dp-server" }, server),
  );
  const left = el("div", { class: "dp-left" }, about, el("div", { class: "dp-ask" }, ask), set);
  const columns = el("div", { class: "dp-columns" });
  const folded = top ? tr("Examples and settings") : tr("Prompt and settings");
  const fold = createButton(folded, () => asking(!columns.matches(".asking")), {
    class: "dp-btn dp-fold",
    "aria-expanded": "false",
  });
  const asking = (/** @type {boolean} */ on) => {
    columns.classList.toggle("asking", on);
    fold.setAttribute("aria-expanded", String(on));
  };
  left.addEventListener("keydown", (event) => event.key === "Escape" && asking(false));
  left.addEventListener("click", ({ target }) => {
    if (target instanceof Element && target.closest(".f-go")) asking(false);
  });
  const viewed = el("div", { class: "dp-right" }, right);
  columns.append(fold, left, viewed);
  const above = top ? [el("div", { class: "dp-top" }, top)] : [];
  const arrange = () => {
    if (NARROW.matches) columns.append(...(top ? [left] : []), set);
    else {
      viewed.before(left);
      left.append(set);
    }
    // On a phone the text comes before the words about it.
    if (top) (NARROW.matches ? set : left).prepend(about);
  };
  NARROW.addEventListener("change", arrange);
  arrange();
  root.replaceChildren(...above, columns);
}
