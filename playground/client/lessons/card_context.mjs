// A run's input and its text before a card's step, for the page and the handout.
import { createMediaFigures } from "../../../visualizers/media/view.mjs";
import { el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

/**
 * A run and the step of it that a card is about.
 * @typedef {object} Scene
 * @property {string} run
 * @property {number} step from 1
 * @property {number | null} until the last step shown, null for all
 * @property {string[]} pictures
 * @property {string} strategy
 * @property {any[]} media
 * @property {string} prompt
 * @property {string} text before the step
 */

/**
 * Return the nodes with a scene's media, prompt and text so far.
 * @param {Scene} scene
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
