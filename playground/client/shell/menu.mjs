// A quiet menu: a button that opens a list of choices next to it.
import { el } from "../../../visualizers/shared/dom.mjs";

/**
 * Create a menu that closes with Escape, with a press elsewhere and with a press on a choice.
 * @param {string} title
 * @param {HTMLElement} list the choices
 */
export function createMenu(title, list) {
  const head = el("summary", { class: "dp-btn dp-quiet" }, title);
  const box = el("details", { class: "dp-menu" }, head, el("div", { class: "dp-menu-list" }, list));
  const close = () => {
    box.open = false;
  };
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !box.open) return;
    close();
    head.focus();
  });
  addEventListener("click", ({ target }) => {
    if (!(target instanceof Node) || !box.contains(target)) close();
  });
  list.addEventListener("click", ({ target }) => {
    if (target instanceof Element && target.closest("button")) close();
  });
  return box;
}
