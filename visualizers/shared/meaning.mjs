// The box in which a term is explained: one for the page, above everything, beside the word it speaks of.
// It stays while word or box is pointed at or the word has the focus, and goes with Escape.
import { el } from "./dom.mjs";

const EDGE = 8;

const placeOf = ({ clientX, clientY }) => `${clientX} ${clientY}`;

export class Meaning {
  /** @type {HTMLElement | null} */
  #word = null;
  #watch = new MutationObserver(() => this.#follow());
  /** Where the pointer is, and where it was when the box was put away by key. */
  #pointer = "";
  #put = "";

  constructor() {
    this.title = el("b", {});
    this.says = el("span", {});
    this.beware = el("em", {});
    const inside = el("span", { class: "dp-meaning-in" }, this.title, this.says, this.beware);
    this.box = el("div", { class: "dp-meaning", role: "tooltip", popover: "manual" }, inside);
    // What a screen reader reads with a word stands in the page whether or not the box is open.
    this.kept = el("div", { hidden: true });
    document.body.append(this.kept, this.box);
    this.box.addEventListener("pointerleave", (event) => this.#leave(event));
    document.addEventListener("keydown", (event) => this.#press(event), true);
    document.addEventListener("pointerdown", (event) => this.#press(event), true);
    const seen = { capture: true, passive: true };
    document.addEventListener("pointermove", (event) => (this.#pointer = placeOf(event)), seen);
    for (const moved of ["scroll", "resize"])
      window.addEventListener(moved, () => this.#follow(), seen);
  }

  /**
   * @param {HTMLElement} word
   * @param {string} name
   * @param {[string, string, string?]} meaning
   * @param {string} id of what is read with the word
   */
  of(word, name, [says, beware, called = name], id) {
    if (!document.getElementById(id))
      this.kept.append(el("p", { id }, beware ? `${says} ${beware}` : says));
    const open = () => this.#open(word, called, says, beware);
    word.addEventListener("pointerenter", (event) => {
      // What stood under the box is entered by a pointer that does not move: nobody asked for it.
      if (event.pointerType === "mouse" && placeOf(event) !== this.#put) open();
    });
    word.addEventListener("focus", open);
    word.addEventListener("click", (event) => {
      // A word inside of something that acts does not act for it.
      event.preventDefault();
      event.stopPropagation();
      open();
    });
    word.addEventListener("pointerleave", (event) => this.#leave(event));
    word.addEventListener("blur", () => this.close());
  }

  #open(word, name, says, beware) {
    this.title.textContent = name;
    this.says.textContent = says;
    this.beware.textContent = beware;
    this.beware.hidden = !beware;
    this.#word = word;
    // A page in a frame, or in full screen, keeps its top layer to itself.
    if (!this.box.matches(":popover-open")) this.box.showPopover();
    this.#watch.observe(document.body, { childList: true, subtree: true });
    this.#follow();
  }

  close() {
    if (!this.#word) return;
    this.#word = null;
    this.#watch.disconnect();
    this.box.hidePopover();
  }

  #leave(event) {
    const to = event.relatedTarget;
    const held = to instanceof Node && (this.box.contains(to) || this.#word?.contains(to));
    if (!held && document.activeElement !== this.#word) this.close();
  }

  #press(event) {
    if (!this.#word) return;
    if (event.type === "keydown") {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.#put = this.#pointer;
      this.close();
    } else if (!this.box.contains(event.target) && !this.#word.contains(event.target)) this.close();
  }

  // Below its word where there is room, else above, and never outside of the window.
  #follow() {
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
