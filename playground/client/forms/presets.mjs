// The list of presets: a name, a sentence, a button that loads it and one that also runs it.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

/**
 * The list of a tab's presets.
 * @param {{ name: string, shows: string }[]} presets
 * @param {(preset: any) => void} load
 * @param {(preset: any) => void} run
 */
export class Presets {
  /**
   * @param {any[]} presets
   * @param {(preset: any) => void} load
   * @param {(preset: any) => void} run
   */
  constructor(presets, load, run) {
    this.rows = presets.map((preset) => ({ preset, ...createRow(preset, load, run) }));
    this.box = el(
      "div",
      { class: "dp-presets" },
      el(
        "ul",
        {},
        this.rows.map((row) => row.item),
      ),
    );
    this.box.hidden = !presets.length;
  }

  /**
   * Mark the preset whose settings are in the form.
   * @param {any} chosen
   */
  mark(chosen) {
    for (const { preset, pick } of this.rows)
      pick.setAttribute("aria-pressed", String(preset === chosen));
  }
}

/**
 * @param {any} preset
 * @param {(preset: any) => void} load
 * @param {(preset: any) => void} run
 */
function createRow(preset, load, run) {
  const pick = createButton(preset.name, () => load(preset), {
    class: "dp-btn dp-preset",
    "aria-pressed": "false",
  });
  const go = createButton(tr("Load and run"), () => run(preset), {
    class: "dp-btn pr-run",
    "aria-label": tr("Load and run: {name}", { name: preset.name }),
  });
  const head = el("div", { class: "pr-head" }, pick, go);
  return { pick, item: el("li", {}, head, el("p", { class: "pr-shows" }, preset.shows)) };
}
