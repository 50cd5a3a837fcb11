// The gallery: recorded runs by strategy; a click opens one in the replay tab.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { getOtherTab } from "../shell/other_tabs.mjs";
import { getDeclaration } from "../shell/spec.mjs";

/** @import { GalleryEntry } from "./recorded_runs.mjs" */

/** @param {HTMLElement} root */
export function mountGallery(root) {
  /** @type {GalleryEntry[]} */
  const gallery = getDeclaration().gallery;
  const folds = getDeclaration()
    .strategies.map(({ name, title }) => createFold(name, title, gallery))
    .filter((fold) => fold !== null);
  if (folds.length) folds[0].open = true;
  const title = el("h3", { class: "dp-label" }, tr("Recorded runs"));
  root.replaceChildren(el("div", { class: "dp-presets" }, title, folds));
}

/**
 * The recordings of a strategy; null if there are none.
 * @param {string} strategy
 * @param {string} title
 * @param {GalleryEntry[]} gallery
 */
function createFold(strategy, title, gallery) {
  const entries = gallery.filter((entry) => entry.strategy === strategy);
  if (!entries.length) return null;
  return el(
    "details",
    { class: "gl-strategy", name: "gallery", "data-strategy": strategy },
    el("summary", {}, title, el("span", {}, ` · ${entries.length}`)),
    el("ul", {}, entries.map(createEntry)),
  );
}

/** @param {GalleryEntry} entry */
function createEntry({ name, title, model, shows }) {
  const open = () => getOtherTab("replay")?.restore({ recorded: name, step: null });
  return el(
    "li",
    {},
    createButton(title, open, { class: "dp-btn dp-preset" }),
    el("p", { class: "pr-shows" }, model ? `${model}. ${shows}` : shows),
  );
}
