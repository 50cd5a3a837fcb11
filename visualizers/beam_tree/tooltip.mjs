// The tooltip of the node under the mouse or with the keyboard focus.
import { el } from "../shared/dom.mjs";

/** @import { TreeNode } from "./tree.d.ts" */

export class NodeTooltip {
  node = el("div", { class: "bt-tip", role: "tooltip", hidden: true });
  #lastPosition = "";
  /** @type {TreeNode | null} */
  #shownNode = null;

  hide() {
    this.node.hidden = true;
  }

  /**
   * Place the tooltip below the node, or above it where there is no room.
   * @param {Element} box
   * @param {(Node | string)[]} facts
   */
  show(box, facts) {
    if (!this.node.parentElement) return;
    this.node.hidden = false;
    this.node.replaceChildren(...facts);
    const frame = this.node.parentElement.getBoundingClientRect();
    const at = box.getBoundingClientRect();
    const low = at.bottom - frame.top + 8;
    const high = at.top - frame.top - this.node.offsetHeight - 8;
    const tooLow = low + this.node.offsetHeight > frame.height + 40 && high > 0;
    const right = frame.width - this.node.offsetWidth - 4;
    this.node.style.left = `${Math.max(4, Math.min(right, at.left - frame.left))}px`;
    this.node.style.top = `${tooLow ? high : low}px`;
  }

  /**
   * Scrolling also fires mousemove under a resting mouse, so only a changed position counts.
   * @param {SVGElement} canvas
   * @param {(event: Event) => TreeNode | null} nodeOf
   * @param {(node: TreeNode) => void} show
   */
  listen(canvas, nodeOf, show) {
    canvas.addEventListener("mousemove", (e) => {
      const at = `${e.clientX} ${e.clientY}`;
      const node = nodeOf(e);
      if (at !== this.#lastPosition && (node !== this.#shownNode || this.node.hidden)) {
        this.#shownNode = node;
        if (node) show(node);
        else this.hide();
      }
      this.#lastPosition = at;
    });
    canvas.addEventListener("mouseleave", (e) => {
      if (`${e.clientX} ${e.clientY}` === this.#lastPosition) return;
      this.#shownNode = null;
      this.hide();
    });
    canvas.addEventListener("focusin", (e) => {
      const node = nodeOf(e);
      if (node?.box.matches(":focus-visible")) show(node);
    });
    canvas.addEventListener("focusout", () => this.hide());
  }
}
