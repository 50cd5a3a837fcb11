// A row of buttons, one for each file; one file is shown.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

export class FileTabs {
  chosen = "";

  /**
   * @param {string[]} paths
   * @param {(path: string) => void} show
   */
  constructor(paths, show) {
    this.paths = paths;
    this.show = show;
    this.buttons = paths.map((path) =>
      createButton(path, () => this.choose(path), { class: "dp-btn me-file" }),
    );
    this.node = el(
      "div",
      { class: "me-files", role: "group", "aria-label": tr("Files") },
      this.buttons,
    );
  }

  /** @param {string} path */
  choose(path) {
    this.chosen = path;
    for (const [i, node] of this.buttons.entries())
      node.setAttribute("aria-pressed", String(this.paths[i] === path));
    this.show(path);
  }

  /**
   * Mark the files with unsaved changes.
   * @param {(path: string) => boolean} unsaved
   */
  tell(unsaved) {
    for (const [i, path] of this.paths.entries()) {
      const open = unsaved(path);
      this.buttons[i].textContent = open ? `${path} •` : path;
      this.buttons[i].title = open ? tr("Not saved yet") : "";
    }
  }
}
