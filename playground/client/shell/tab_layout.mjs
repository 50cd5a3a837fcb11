// The layouts of the tabs: a strategy's single column, and the two columns of the others.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

export const NARROW = matchMedia("(max-width: 799px)");
const WIDE = matchMedia("(min-width: 1200px)");
const SETTINGS_KEY = "settings-open";

/** @typedef {HTMLElement | (HTMLElement | null | undefined)[]} Parts */

/**
 * @param {string} title
 * @param {string | HTMLElement[]} words
 */
const createAbout = (title, words) =>
  el(
    "div",
    { class: "dp-about" },
    el("h2", {}, title),
    typeof words === "string" ? el("p", {}, words) : words,
  );

/** @param {Parts} settings */
function createSettings(settings) {
  const server = el("a", { href: "./audit" }, tr("About this server"));
  return el("div", { class: "dp-settings" }, settings, el("p", { class: "dp-server" }, server));
}

/**
 * Create a button that shows and hides something.
 * @param {string} name
 * @param {(open: boolean) => void} show
 */
function createToggle(name, show) {
  let open = false;
  const set = (/** @type {boolean} */ on) => {
    open = on;
    node.setAttribute("aria-expanded", String(on));
    show(on);
  };
  const node = createButton(name, () => set(!open), {
    class: "dp-btn dp-fold",
    "aria-expanded": "false",
  });
  return { node, set };
}

/**
 * Lay out a tab in two columns: its description, the form and the settings; and the views. On a
 * narrow screen the form folds away behind a button; on a phone the settings come last.
 * @param {HTMLElement} root
 * @param {string} title
 * @param {string | HTMLElement[]} words the description
 * @param {{ ask: Parts, right: Parts, settings: Parts }} parts
 */
export function mountLayout(root, title, words, { ask, right, settings }) {
  const set = createSettings(settings);
  const left = el(
    "div",
    { class: "dp-left" },
    createAbout(title, words),
    el("div", { class: "dp-ask" }, ask),
    set,
  );
  const columns = el("div", { class: "dp-columns" });
  const fold = createToggle(tr("Prompt and settings"), (on) =>
    columns.classList.toggle("asking", on),
  );
  left.addEventListener("keydown", (event) => event.key === "Escape" && fold.set(false));
  left.addEventListener("click", ({ target }) => {
    if (target instanceof Element && target.closest(".f-go")) fold.set(false);
  });
  const viewed = el("div", { class: "dp-right" }, right);
  columns.append(fold.node, left, viewed);
  const arrange = () => {
    if (NARROW.matches) columns.append(set);
    else left.append(set);
  };
  NARROW.addEventListener("change", arrange);
  arrange();
  root.replaceChildren(columns);
}

/**
 * Lay out a strategy's tab in one column: the prompt, the dials, the text and its pictures. All
 * other settings open beside the column, and stay open in this browser until they are closed.
 * @param {HTMLElement} root
 * @param {string} title
 * @param {HTMLElement[]} words the description
 * @param {{ prompt: Parts, dials: Parts, menu: HTMLElement, views: Parts, settings: Parts }} parts
 *   menu: the examples
 */
export function mountStrategyLayout(root, title, words, { prompt, dials, menu, views, settings }) {
  const side = el(
    "aside",
    { class: "dp-side", "aria-label": tr("More settings") },
    createAbout(title, words),
    createSettings(settings),
  );
  const fold = createToggle(tr("More settings"), (on) => {
    root.classList.toggle("dp-open", on);
    if (WIDE.matches) rememberOpen(on);
  });
  side.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    fold.set(false);
    fold.node.focus();
  });
  const turned = el(
    "div",
    { class: "dp-dials" },
    dials,
    el("div", { class: "dp-dials-more" }, menu, fold.node),
  );
  root.classList.add("dp-explore");
  root.replaceChildren(
    el("div", { class: "dp-top" }, prompt),
    turned,
    side,
    el("div", { class: "dp-views" }, views),
  );
  // Where there is no room beside the column, open settings would push the text away.
  fold.set(WIDE.matches && wasOpen());
}

// Private windows may refuse storage.
function wasOpen() {
  try {
    return localStorage.getItem(SETTINGS_KEY) === "1";
  } catch {
    return false;
  }
}

/** @param {boolean} open */
function rememberOpen(open) {
  try {
    localStorage.setItem(SETTINGS_KEY, open ? "1" : "");
  } catch {
    // Without storage the settings start closed.
  }
}
