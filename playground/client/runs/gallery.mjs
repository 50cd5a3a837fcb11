// The gallery: a list of recorded runs; a click opens one in the replay tab.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { getOtherTab } from "../shell/other_tabs.mjs";
import { getDeclaration } from "../shell/spec.mjs";

/** @param {HTMLElement} root */
export function mountGallery(root) {
  /** @param {string} name */
  const open = (name) => getOtherTab("replay")?.restore({ recorded: name, step: null });
  /** @type {{ name: string, title: string, shows: string }[]} */
  const gallery = getDeclaration().gallery;
  const runs = gallery.map(({ name, title, shows }) =>
    el(
      "li",
      {},
      createButton(title, () => open(name), { class: "dp-btn dp-preset" }),
      el("p", { class: "pr-shows" }, shows),
    ),
  );
  const title = el("h3", { class: "dp-label" }, tr("Recorded runs"));
  root.replaceChildren(el("div", { class: "dp-presets" }, title, el("ul", {}, runs)));
}
