// The first word that other settings would change: struck, the new word after it, the rest greyed; or
// in place of the rest that of the new text, where it is known.
import { el } from "../shared/dom.mjs";
import { tokensText } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @import { DrawnToken } from "./view.mjs" */

export class FirstChange {
  #word = el("b", { class: "tx-new", title: tr("with your settings") });
  #rest = el("span", { class: "tx-rest" });
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
    const key = first?.known ? `${first.step}:${first.token_id}:${first.rest}:${text.length}` : "";
    if (key === this.#key) return;
    this.clear();
    this.#key = key;
    const at = key ? text.findIndex(({ step }) => step === first?.step) : -1;
    if (at < 0 || !first) return;
    const [{ node: struck }, ...rest] = text.slice(at);
    struck.classList.add("gone");
    for (const { node } of rest) node.classList.add(first.rest ? "away" : "late");
    this.#word.textContent = tokensText(run, [first.token_id]).trim();
    const ids = (first.rest ?? []).filter((id) => !run.eos_token_ids.includes(id));
    this.#rest.textContent = tokensText(run, ids).replaceAll("⏎", "⏎\n");
    struck.after(this.#word, this.#rest);
    this.#marked = [struck, ...rest.map(({ node }) => node)];
  }

  clear() {
    this.#key = "";
    for (const node of this.#marked) node.classList.remove("gone", "late", "away");
    this.#marked = [];
    this.#word.remove();
    this.#rest.remove();
  }
}
