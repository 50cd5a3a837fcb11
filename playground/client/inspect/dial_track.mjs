// Draws the map of a dial on the track of its slider, with a caption about the text at its value.
import {
  captionTexts,
  countShared,
  findPlace,
  isKnown,
  isSameText,
} from "../../../visualizers/dial_map/intervals.mjs";
import { el } from "../../../visualizers/shared/dom.mjs";

/** @import { DialMap } from "../../../visualizers/dial_map/intervals.mjs" */

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
