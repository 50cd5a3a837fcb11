// The viewport of the tree: scrolling, dragging, zooming, following the newest step, and the map.
import { el, svg } from "../shared/dom.mjs";
import { tr } from "../shared/tr.mjs";
import {
  COLUMN_WIDTH,
  GUTTER_WIDTH,
  NODE_HEIGHT,
  NODE_WIDTH,
  nodeX,
  TREE_LEFT,
  TREE_TOP,
} from "./geometry.mjs";

/** @import { Canvas } from "./canvas.mjs" */
/** @import { TreeGroup, TreeNode } from "./tree.d.ts" */

const MARGIN_STEPS = 3;
const MIN_SCALE = 0.08;
const NARROW_WIDTH = 700;
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
  scale = innerWidth < NARROW_WIDTH ? 0.9 : 1;
  #lastTouch = 0;
  /** @type {{ x: number, y: number, left: number, top: number } | null} where a drag began */
  #drag = null;
  /** @type {{ wide: number, high: number } | null} */
  #size = null;

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
      if (this.#size) this.callbacks.resized();
    }).observe(this.scroll);
  }

  clear() {
    this.#size = null;
    this.following = true;
    this.mapLines.removeAttribute("d");
    this.mapBest.removeAttribute("d");
    this.callbacks.followed(true);
  }

  /**
   * @param {TreeGroup[]} groups
   * @param {number} wide
   * @param {number} high
   */
  resize(groups, wide, high) {
    this.#size = { wide, high };
    this.canvas.resize(groups, wide, high, this.scale);
    this.map.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    if (this.following) this.#scrollToEnd();
    this.watch();
  }

  watch() {
    if (!this.#size) return;
    const { scroll, scale, lens } = this;
    const left = scroll.scrollLeft / scale;
    const seen = scroll.clientWidth / scale;
    const { wide } = this.#size;
    this.canvas.pin(left, scroll.scrollTop / scale);
    lens.style.left = `${100 * Math.min(1, left / wide)}%`;
    lens.style.width = `${100 * Math.min(1, seen / wide)}%`;
    this.overview.classList.toggle("idle", seen >= wide);
    const first = Math.max(0, Math.floor((left - TREE_LEFT) / COLUMN_WIDTH) - MARGIN_STEPS);
    this.canvas.render(first, Math.ceil((left + seen - TREE_LEFT) / COLUMN_WIDTH) + MARGIN_STEPS);
  }

  #scrollToEnd() {
    this.scroll.scrollLeft = this.scroll.scrollWidth;
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
    if (!this.#size) return;
    const middle = (this.scroll.scrollLeft + at) / this.scale;
    this.scale = Math.max(MIN_SCALE, Math.min(2.5, this.scale * factor));
    this.callbacks.resized();
    if (this.following) return;
    this.scroll.scrollLeft = middle * this.scale - at;
    this.watch();
  }

  fit() {
    if (!this.#size) return;
    const { wide, high } = this.#size;
    this.follow(false);
    const across = this.scroll.clientWidth / wide;
    const down = Math.max(260, this.scroll.clientHeight) / high;
    this.scale = Math.max(MIN_SCALE, Math.min(1.5, across, down));
    this.callbacks.resized();
  }

  /** @param {TreeNode} node */
  reveal(node) {
    const { scroll, scale } = this;
    const left = nodeX(node) * scale;
    const top = node.y * scale;
    const edge = GUTTER_WIDTH * scale + 8;
    const right = left + NODE_WIDTH * scale;
    const bottom = top + NODE_HEIGHT * scale;
    if (left < scroll.scrollLeft + edge) scroll.scrollLeft = left - edge;
    else if (right > scroll.scrollLeft + scroll.clientWidth)
      scroll.scrollLeft = right + 20 - scroll.clientWidth;
    if (top < scroll.scrollTop + TREE_TOP * scale) scroll.scrollTop = top - TREE_TOP * scale;
    else if (bottom > scroll.scrollTop + scroll.clientHeight)
      scroll.scrollTop = bottom + 10 - scroll.clientHeight;
    this.watch();
  }

  /** @param {TreeNode} node */
  sees(node) {
    const left = nodeX(node) * this.scale;
    const from = this.scroll.scrollLeft;
    return (
      left >= from + GUTTER_WIDTH &&
      left + NODE_WIDTH * this.scale <= from + this.scroll.clientWidth
    );
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
