// Draws the map of a dial on the track of its slider, with a caption about the text at its value.
import { el } from "../../../visualizers/shared/dom.mjs";
import { formatFixed } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { countShared, findPlace, isKnown, isSameText } from "./dial_maps.mjs";

/** @import { DialMap, Interval, Place } from "./dial_maps.mjs" */

/**
 * Return the ends of a stretch as texts that differ, with two decimals if these suffice.
 * @param {Interval} interval
 */
export function formatStretch({ low, high }) {
  for (const digits of [2, 3, 4]) {
    const ends = [low, high].map((value) => formatFixed(value, digits));
    if (ends[0] !== ends[1] || digits === 4) return ends;
  }
  return [];
}

/**
 * Return what a caption says about the text at a value: about its stretch, and which text it is.
 * @param {DialMap} map
 * @param {Place | null} place
 */
export function captionTexts({ intervals }, place) {
  if (!place) return [tr("Text not known here")];
  const [low, high] = formatStretch(place.interval);
  const which = tr("text {n} of {count}", { n: place.place + 1, count: intervals.length });
  if (place.first !== null) return [tr("New from token {n} on", { n: place.first + 1 }), which];
  const { end, token_ids } = place.interval;
  const n = token_ids.length;
  if (end === "cut") return [tr("Same {n} tokens from {low} to {high}", { n, low, high }), which];
  return [tr("Same text from {low} to {high}", { low, high }), which];
}

export class DialTrack {
  #slider;
  #map = el("span", { class: "dm-map", "aria-hidden": "true" });
  #caption = el("p", { class: "dm-caption" });
  #drawn = "";

  /**
   * Put the track around a slider and the caption below it.
   * @param {HTMLInputElement} slider
   */
  constructor(slider) {
    this.#slider = slider;
    this.box = el("div", { class: "dm-track" });
    slider.replaceWith(this.box);
    this.box.append(this.#map, slider);
    this.box.after(this.#caption);
  }

  /**
   * @param {DialMap | null | undefined} map nothing while it is not known
   * @param {number[]} own tokens of the run's text
   * @param {number} value of the dial
   * @param {string} key names the map
   */
  show(map, own, value, key) {
    this.box.classList.toggle("dm-known", Boolean(map));
    if (!map) {
      this.#drawn = "";
      this.#map.replaceChildren();
      this.#caption.replaceChildren();
      return null;
    }
    if (key !== this.#drawn) this.#draw(map, own);
    this.#drawn = key;
    const place = findPlace(map, own, value);
    for (const [i, node] of [...this.#map.children].entries())
      node.classList.toggle("dm-here", i === place?.place);
    const parts = captionTexts(map, place);
    this.#caption.replaceChildren(...parts.map((text) => el("span", {}, text)));
    this.#slider.setAttribute("aria-valuetext", [value, ...parts].join(", "));
    return place;
  }

  /**
   * @param {DialMap} map
   * @param {number[]} own
   */
  #draw({ intervals }, own) {
    const [min, max] = [Number(this.#slider.min), Number(this.#slider.max)];
    const percent = (/** @type {number} */ value) =>
      Math.min(100, Math.max(0, ((value - min) / (max - min)) * 100));
    this.#map.replaceChildren(
      ...intervals.map((one, i) => {
        const next = intervals[i + 1];
        // Between two stops, the edge is somewhere; it is drawn in the middle.
        const left = i ? percent((intervals[i - 1].high + one.low) / 2) : 0;
        const right = next ? percent((one.high + next.low) / 2) : 100;
        const shared = countShared(own, one.token_ids);
        const known = isKnown(one) ? (isSameText(one, own) ? " dm-own" : "") : " dm-unknown";
        const share = Math.round((shared / Math.max(1, own.length)) * 100);
        const style = { left: `${left}%`, width: `${right - left}%` };
        const node = el("i", { class: `${i % 2 ? "dm-odd" : "dm-even"}${known}`, style });
        node.style.setProperty("--dm-share", `${share}%`);
        return node;
      }),
    );
  }
}
