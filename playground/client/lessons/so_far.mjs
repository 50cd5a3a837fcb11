// What a run was given and has written before the step of a card, on the page and on paper.
import { givenMedia } from "../../../visualizers/media/view.mjs";
import { el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

/**
 * @param {any} scene of `before` of playground/lesson_data.py
 * @param {string} hide what is hidden until the bet
 */
export function soFar({ media, prompt, text }, hide) {
  const gap = { class: "ls-gap", role: "img", "aria-label": tr("hidden") };
  return [
    givenMedia(media),
    el(
      "p",
      { class: "ls-text-so-far" },
      el("span", { class: "dp-prompt" }, prompt),
      el("span", {}, text),
      hide === "future" ? el("span", gap, "?") : null,
    ),
  ];
}
