// The tooltip that explains a glossary term. The page has one, above
// all other content. It stays open while the pointer is over the
// word or the tooltip, or the word has the focus. Escape closes it.
import { el } from "./dom.mjs";

const EDGE = 8;

/** @param {{ clientX: number, clientY: number }} event */
const pointerPosition = ({ clientX, clientY }) => `${clientX} ${clientY}`;

/**
 * @param {Event} event
 * @param {Element} box
 */
const isInside = ({ target }, box) => target instanceof Node && box.contains(target);

export class TermTooltip {
  /** @type {HTMLElement | null} */
  #word = null;
  #watch = new MutationObserver(() => this.#updatePosition());
  /** Pointer position now, and when Escape last closed the tooltip. */
  #pointer = "";
  #closedAt = "";

  constructor() {
    this.title = el("b", {});
    this.says = el("span", {});
    this.beware = el("em", {});
    const inside = el("span", { class: "dp-tooltip-body" }, this.title, this.says, this.beware);
    this.box = el("div", { class: "dp-tooltip", role: "tooltip", popover: "manual" }, inside);
    // `aria-describedby` needs the explanation in the page even while the tooltip is closed.
    this.kept = el("div", { hidden: true });
    document.body.append(this.kept, this.box);
    this.box.addEventListener("pointerleave", (event) => this.#closeUnlessInside(event));
    document.addEventListener("keydown", (event) => this.#handleInput(event), true);
    document.addEventListener("pointerdown", (event) => this.#handleInput(event), true);
    const seen = { capture: true, passive: true };
    document.addEventListener(
      "pointermove",
      (event) => (this.#pointer = pointerPosition(event)),
      seen,
    );
    for (const moved of ["scroll", "resize"])
      window.addEventListener(moved, () => this.#updatePosition(), seen);
  }

  /**
   * @param {HTMLElement} word
   * @param {string} name
   * @param {[string, string, string?]} meaning
   * @param {string} id of the element with the explanation for screen readers
   */
  of(word, name, [says, beware, called = name], id) {
    if (!document.getElementById(id))
      this.kept.append(el("p", { id }, beware ? `${says} ${beware}` : says));
    const open = () => this.#showFor(word, called, says, beware);
    word.addEventListener("pointerenter", (event) => {
      // Closing the tooltip fires pointerenter on a word
      // below it although the pointer did not move.
      if (event.pointerType === "mouse" && pointerPosition(event) !== this.#closedAt) open();
    });
    word.addEventListener("focus", open);
    word.addEventListener("click", (event) => {
      // A term inside a button or label must not trigger it.
      event.preventDefault();
      event.stopPropagation();
      open();
    });
    word.addEventListener("pointerleave", (event) => this.#closeUnlessInside(event));
    word.addEventListener("blur", () => this.close());
  }

  /**
   * @param {HTMLElement} word
   * @param {string} name
   * @param {string} says
   * @param {string} beware
   */
  #showFor(word, name, says, beware) {
    this.title.textContent = name;
    this.says.textContent = says;
    this.beware.textContent = beware;
    this.beware.hidden = !beware;
    this.#word = word;
    // The popover API puts the tooltip into the top layer, above an element in full screen.
    if (!this.box.matches(":popover-open")) this.box.showPopover();
    this.#watch.observe(document.body, { childList: true, subtree: true });
    this.#updatePosition();
  }

  close() {
    if (!this.#word) return;
    this.#word = null;
    this.#watch.disconnect();
    this.box.hidePopover();
  }

  /** @param {PointerEvent} event */
  #closeUnlessInside(event) {
    const to = event.relatedTarget;
    const held = to instanceof Node && (this.box.contains(to) || this.#word?.contains(to));
    if (!held && document.activeElement !== this.#word) this.close();
  }

  /** @param {KeyboardEvent | PointerEvent} event */
  #handleInput(event) {
    if (!this.#word) return;
    if (event instanceof KeyboardEvent) {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.#closedAt = this.#pointer;
      this.close();
    } else if (!(isInside(event, this.box) || isInside(event, this.#word))) this.close();
  }

  // Place the tooltip below its word, or above it where there is no room, inside the window.
  #updatePosition() {
    if (!this.#word) return;
    if (!this.#word.isConnected) return this.close();
    const { clientWidth, clientHeight } = document.documentElement;
    const word = this.#word.getBoundingClientRect();
    const { width, height } = this.box.getBoundingClientRect();
    const left = word.left + word.width / 2 - width / 2;
    const below = word.bottom + height <= clientHeight || word.top < height;
    const top = below ? word.bottom : word.top - height;
    Object.assign(this.box.style, {
      left: `${Math.max(EDGE, Math.min(left, clientWidth - width - EDGE))}px`,
      top: `${Math.max(0, Math.min(top, clientHeight - height))}px`,
    });
  }
}
