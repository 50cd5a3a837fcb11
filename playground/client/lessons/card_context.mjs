// A run's input and its text before a card's step, for the page and the handout.
import { createMediaFigures } from "../../../visualizers/media/view.mjs";
import { el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

/**
 * Return the nodes with a scene's media, prompt and text so far.
 * @param {any} scene of `before` of the lesson's data
 * @param {string} hide the part hidden until the bet
 */
export function createCardContext({ media, prompt, text }, hide) {
  const gap = { class: "ls-gap", role: "img", "aria-label": tr("hidden") };
  return [
    createMediaFigures(media),
    el(
      "p",
      { class: "ls-context" },
      el("span", { class: "dp-prompt" }, prompt),
      el("span", {}, text),
      hide === "future" ? el("span", gap, "?") : null,
    ),
  ];
}
