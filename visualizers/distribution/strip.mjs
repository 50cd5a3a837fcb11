// A strip of shares: one slice for each token, the chosen one solid, all others hatched. A needle shows
// where a draw fell.
import { el } from "../shared/dom.mjs";
import { formatWholePercent, toCssLength } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @typedef {{ name: string, share: number, on: boolean }} Slice */

/**
 * The shares of tokens, and where the draw fell in the chosen slice, from 0 to 1.
 * @typedef {object} StripContent
 * @property {Slice[]} slices
 * @property {number} rest share of all other tokens
 * @property {number | null} needle null if it is not known
 */

/**
 * Whether a name fits into its slice.
 * @drawing
 * @param {Slice} slice
 * @param {number} width of the strip in pixels
 */
const isNameFitting = ({ name, share }, width) => share * width > 9 * name.length + 12;

/**
 * Place of the needle on the strip, from 0 to 1; null without a needle.
 * @drawing
 * @param {StripContent} content
 */
export function needlePlace({ slices, needle }) {
  const chosen = slices.findIndex(({ on }) => on);
  if (needle === null || chosen < 0) return null;
  const before = slices.slice(0, chosen).reduce((sum, { share }) => sum + share, 0);
  return before + needle * slices[chosen].share;
}

/** @param {StripContent} content */
function describeStrip({ slices, rest }) {
  const parts = slices.map(({ name, share }) => `${name} ${formatWholePercent(share)}`);
  const others = `${tr("all others")} ${formatWholePercent(rest)}`;
  const chosen = slices.find(({ on }) => on);
  const shares = [...parts, ...(rest > 0 ? [others] : [])].join(", ");
  return chosen ? tr("{shares}. Drawn: {name}.", { shares, name: chosen.name }) : shares;
}

export class Strip {
  /** @type {HTMLElement[]} */
  #slices = [];
  #rest = el("i", { class: "sl-slice rest" });
  #name = el("em", {});
  #needle = el("span", { class: "sl-needle" });

  constructor() {
    this.node = el("div", { class: "sl-strip", role: "img" }, this.#rest, this.#needle, this.#name);
  }

  /**
   * Draw other shares with the same elements.
   * @param {StripContent} content
   * @param {number} width of the strip in pixels
   */
  draw(content, width) {
    const { slices, rest } = content;
    while (this.#slices.length < slices.length) {
      const made = el("i", {});
      this.#slices.push(made);
      this.#rest.before(made);
    }
    for (const [i, node] of this.#slices.entries()) {
      const slice = slices[i];
      node.hidden = !slice?.share;
      if (!slice) continue;
      node.className = `sl-slice${slice.on ? " on" : ""}`;
      node.style.flexBasis = toCssLength(slice.share);
      node.textContent = isNameFitting(slice, width) ? slice.name : "";
    }
    this.#rest.hidden = !(rest > 0);
    this.#rest.style.flexBasis = toCssLength(rest);
    this.#drawNeedle(content);
    this.node.setAttribute("aria-label", describeStrip(content));
  }

  /** @param {StripContent} content */
  #drawNeedle(content) {
    const place = needlePlace(content);
    this.#needle.hidden = this.#name.hidden = place === null;
    if (place === null) return;
    this.node.style.setProperty("--at", toCssLength(place));
    this.#name.textContent = content.slices.find(({ on }) => on)?.name ?? "";
  }
}
