// The viewport of the tree: scrolling, dragging, zooming, following the newest step, and the map.
import { el, svg } from "../shared/dom.mjs";
import { tr } from "../shared/tr.mjs";
import { COLUMN_GAP, NODE_HEIGHT, TREE_TOP } from "./geometry.mjs";

/** @import { Canvas } from "./canvas.mjs" */
/** @import { Layout } from "./layout.mjs" */
/** @import { TreeNode } from "./tree.d.ts" */

const MARGIN_STEPS = 3;
const MIN_SCALE = 0.08;
// At a smaller scale the words of a tree are too small to read, so that a longer one scrolls.
const MIN_READING_SCALE = 0.72;
// Scrolling within this time after an input event counts as the visitor's.
const USER_SCROLL_MS = 600;

/**
 * Zoom factor of a turn of the mouse wheel.
 * @drawing
 * @param {number} turn
 */
const wheelZoom = (turn) => Math.exp(-turn / 300);

/**
 * @typedef {object} ViewportCallbacks
 * @property {() => void} resized
 * @property {(on: boolean) => void} followed following the newest step begins or ends
 * @property {() => void} dragging
 */

export class Viewport {
  following = true;
  dragged = false;
  scale = 1;
  // Whether the visitor chose the scale.
  #zoomed = false;
  #lastTouch = 0;
  /** @type {{ x: number, y: number, left: number, top: number } | null} where a drag began */
  #drag = null;
  /** @type {Layout | null} */
  #layout = null;

  /**
   * @param {Canvas} canvas
   * @param {ViewportCallbacks} callbacks
   */
  constructor(canvas, callbacks) {
    this.canvas = canvas;
    this.callbacks = callbacks;
    this.scroll = el("div", { class: "bt-scroll" }, canvas.node);
    this.mapLines = svg("path", { class: "bt-map-kept" });
    this.mapBest = svg("path", { class: "bt-map-best" });
    const attrs = { class: "bt-map-svg", preserveAspectRatio: "none" };
    this.map = svg("svg", attrs, this.mapLines, this.mapBest);
    this.lens = el("div", { class: "bt-map-window" });
    this.overview = el(
      "div",
      { class: "bt-map", "aria-hidden": "true", title: tr("The whole tree: drag to move") },
      this.map,
      this.lens,
    );
    this.#listenToPointer();
    this.#listenToScrolling();
    this.#listenToMap();
    new ResizeObserver(() => {
      if (this.#layout) this.callbacks.resized();
    }).observe(this.scroll);
  }

  clear() {
    this.#layout = null;
    if (!this.#zoomed) this.scale = 1;
    this.following = true;
    this.mapLines.removeAttribute("d");
    this.mapBest.removeAttribute("d");
    this.callbacks.followed(true);
  }

  /** @param {Layout} layout */
  resize(layout) {
    this.#layout = layout;
    this.canvas.resize(layout, this.scale);
    this.map.setAttribute("viewBox", `0 0 ${layout.width} ${layout.height}`);
    if (this.following) this.#scrollToEnd();
    this.watch();
  }

  watch() {
    if (!this.#layout) return;
    const { scroll, scale, lens } = this;
    const left = scroll.scrollLeft / scale;
    const seen = scroll.clientWidth / scale;
    const { width } = this.#layout;
    this.canvas.pin(left, scroll.scrollTop / scale);
    lens.style.left = `${100 * Math.min(1, left / width)}%`;
    lens.style.width = `${100 * Math.min(1, seen / width)}%`;
    this.overview.classList.toggle("idle", seen >= width);
    const [first, last] = this.#layout.stepsBetween(left, left + seen);
    this.canvas.render(Math.max(0, first - MARGIN_STEPS), last + MARGIN_STEPS);
  }

  #scrollToEnd() {
    this.scroll.scrollLeft = this.scroll.scrollWidth;
  }

  toRoot() {
    this.scroll.scrollLeft = 0;
    this.scroll.scrollTop = 0;
    this.watch();
  }

  /** @param {boolean} on */
  follow(on) {
    this.following = on;
    this.callbacks.followed(on);
    if (!on) return;
    this.#scrollToEnd();
    this.watch();
  }

  /**
   * @param {number} factor
   * @param {number} at
   */
  zoom(factor, at = this.scroll.clientWidth / 2) {
    const middle = (this.scroll.scrollLeft + at) / this.scale;
    this.#zoomed = true;
    this.#setScale(Math.max(MIN_SCALE, Math.min(2.5, this.scale * factor)));
    if (this.following) return;
    this.scroll.scrollLeft = middle * this.scale - at;
    this.watch();
  }

  /** @param {number} scale */
  #setScale(scale) {
    if (scale === this.scale) return;
    this.scale = scale;
    if (this.#layout) this.callbacks.resized();
  }

  /** Show the whole tree, however small. */
  fit() {
    if (!this.#layout) return;
    const { width, height } = this.#layout;
    this.follow(false);
    this.#zoomed = true;
    const across = this.scroll.clientWidth / width;
    const down = Math.max(260, this.scroll.clientHeight) / height;
    this.#setScale(Math.max(MIN_SCALE, Math.min(1.5, across, down)));
  }

  /** Show all steps of a finished tree, if its words stay readable; otherwise as they are. */
  fitSteps() {
    if (!this.#layout || this.#zoomed) return;
    const across = this.scroll.clientWidth / this.#layout.width;
    this.#setScale(across < MIN_READING_SCALE ? 1 : Math.min(1, across));
  }

  /** @param {TreeNode} node */
  reveal(node) {
    const { scroll, scale } = this;
    const [left, right] = this.#sidesOf(node);
    const top = node.y * scale;
    const bottom = top + NODE_HEIGHT * scale;
    if (left < scroll.scrollLeft) scroll.scrollLeft = left - COLUMN_GAP;
    else if (right > scroll.scrollLeft + scroll.clientWidth)
      scroll.scrollLeft = right + COLUMN_GAP - scroll.clientWidth;
    if (top < scroll.scrollTop + TREE_TOP * scale) scroll.scrollTop = top - TREE_TOP * scale;
    else if (bottom > scroll.scrollTop + scroll.clientHeight)
      scroll.scrollTop = bottom + 10 - scroll.clientHeight;
    this.watch();
  }

  /** @param {TreeNode} node */
  sees(node) {
    const [left, right] = this.#sidesOf(node);
    const from = this.scroll.scrollLeft;
    return left >= from && right <= from + this.scroll.clientWidth;
  }

  /** @param {TreeNode} node */
  #sidesOf({ x, width }) {
    return [x * this.scale, (x + width) * this.scale];
  }

  #recordTouch = () => {
    this.#lastTouch = performance.now();
  };

  #listenToPointer() {
    const { scroll } = this;
    scroll.addEventListener("pointerdown", (e) => {
      this.#recordTouch();
      this.dragged = false;
      if (e.pointerType === "mouse" && e.button === 0 && e.target !== scroll)
        this.#drag = { x: e.clientX, y: e.clientY, left: scroll.scrollLeft, top: scroll.scrollTop };
    });
    scroll.addEventListener("pointermove", (e) => {
      const from = this.#drag;
      if (!from) return;
      if (!this.dragged && Math.hypot(e.clientX - from.x, e.clientY - from.y) < 5) return;
      this.dragged = true;
      this.#recordTouch();
      this.callbacks.dragging();
      scroll.scrollLeft = from.left - e.clientX + from.x;
      scroll.scrollTop = from.top - e.clientY + from.y;
    });
    for (const name of ["pointerup", "pointerleave"])
      scroll.addEventListener(name, () => {
        this.#drag = null;
      });
  }

  #listenToScrolling() {
    const { scroll } = this;
    for (const name of ["wheel", "touchmove", "keydown"])
      scroll.addEventListener(name, this.#recordTouch, { passive: true });
    /** @param {WheelEvent} e */
    const zoomed = (e) => {
      if (!e.ctrlKey) return;
      e.preventDefault();
      this.zoom(wheelZoom(e.deltaY), e.clientX - scroll.getBoundingClientRect().left);
    };
    scroll.addEventListener("wheel", zoomed, { passive: false });
    // Only the visitor's scrolling stops following; scrolling back to the end starts it again.
    const scrolled = () => {
      if (performance.now() - this.#lastTouch < USER_SCROLL_MS) {
        this.following = scroll.scrollLeft + scroll.clientWidth > scroll.scrollWidth - 12;
        this.callbacks.followed(this.following);
      }
      this.watch();
    };
    scroll.addEventListener("scroll", scrolled, { passive: true });
  }

  #listenToMap() {
    const { overview, scroll } = this;
    /** @param {PointerEvent} e */
    const steer = (e) => {
      const box = overview.getBoundingClientRect();
      this.follow(false);
      const middle = ((e.clientX - box.left) / box.width) * scroll.scrollWidth;
      scroll.scrollLeft = middle - scroll.clientWidth / 2;
    };
    overview.addEventListener("pointerdown", (e) => {
      overview.setPointerCapture(e.pointerId);
      steer(e);
    });
    overview.addEventListener("pointermove", (e) => {
      if (e.buttons) steer(e);
    });
  }
}
