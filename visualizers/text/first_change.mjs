// The first word that other settings would change: struck, the new word after it, the rest greyed.
import { el } from "../shared/dom.mjs";
import { tokensText } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @import { DrawnToken } from "./view.mjs" */

export class FirstChange {
  #word = el("b", { class: "tx-new", title: tr("with your settings") });
  /** @type {HTMLElement[]} */
  #marked = [];
  #key = "";

  /**
   * @param {Run} run
   * @param {DrawnToken[][]} texts the drawn tokens of every output
   * @param {Preview["first"] | undefined} first
   */
  show(run, texts, first) {
    const text = texts.find((tokens) => tokens.some(({ step }) => step === first?.step)) ?? [];
    const key = first?.known ? `${first.step}:${first.token_id}:${text.length}` : "";
    if (key === this.#key) return;
    this.clear();
    this.#key = key;
    const at = key ? text.findIndex(({ step }) => step === first?.step) : -1;
    if (at < 0 || !first) return;
    const [{ node: struck }, ...rest] = text.slice(at);
    struck.classList.add("gone");
    for (const { node } of rest) node.classList.add("late");
    this.#word.textContent = tokensText(run, [first.token_id]).trim();
    struck.after(this.#word);
    this.#marked = [struck, ...rest.map(({ node }) => node)];
  }

  clear() {
    this.#key = "";
    for (const node of this.#marked) node.classList.remove("gone", "late");
    this.#marked = [];
    this.#word.remove();
  }
}
