// Recorded runs to be opened, in the order of the strategies.
import { button, el } from "../../visualizers/shared/dom.mjs";
import { declared } from "./spec.mjs";

export function mountGallery(root, trigger) {
  const runs = declared().gallery.map(({ file, title }) =>
    button(title, () => trigger("input", { file }), { class: "dp-btn dp-preset" }),
  );
  const title = el("h3", { class: "dp-label" }, "Recorded runs");
  root.replaceChildren(el("div", { class: "dp-presets" }, title, runs));
}
