// The panels around a beam tree: best text, selected node, its step, and greedy search.
import { createButton, el } from "../shared/dom.mjs";
import { tr } from "../shared/tr.mjs";
import { isContinued } from "./forest.mjs";
import { createGreedyComparison } from "./greedy.mjs";
import { createNodeFacts, createNodeTable, createPool, createSearchState } from "./info.mjs";
import { listDropped } from "./layout.mjs";
import { pathText, scoreText } from "./words.mjs";

/** @import { Forest } from "./forest.mjs" */
/** @import { TreeNode } from "./tree.d.ts" */

// The headline shows the end of a longer text; the text view above has all of it.
const MAX_CHARACTERS = 400;

/**
 * @param {boolean} hidden
 * @param {number} n
 */
const foldText = (hidden, n) => {
  if (hidden)
    return n === 1
      ? tr("Show its 1 dropped continuation")
      : tr("Show its {n} dropped continuations", { n });
  return n === 1
    ? tr("Hide its 1 dropped continuation")
    : tr("Hide its {n} dropped continuations", { n });
};

/** @param {string} text */
const keepEnd = (text) => (text.length > MAX_CHARACTERS ? `…${text.slice(-MAX_CHARACTERS)}` : text);

/**
 * What can be done with the selected node.
 * @typedef {object} NodeActions
 * @property {(() => void) | null} fork
 * @property {(() => void) | null} why
 * @property {boolean} hidden whether its dropped continuations are hidden
 * @property {() => void} fold
 * @property {(other: TreeNode) => void} choose
 * @property {boolean} focus
 * @property {string} group
 */

export class Panels {
  headline = el("p", { class: "bt-head" });
  #facts = el("div", { class: "bt-facts" });
  #state = el("div", { class: "bt-state" });
  #pool = el("div", { class: "bt-pool-box" });
  #greedy = el("div", { class: "bt-greedy" });
  #tableBox = el("div", {});
  /** @type {ReturnType<typeof createNodeTable> | null} */
  #table = null;
  #shownState = "";
  // Whether the visitor opened or closed the pool; null until then.
  /** @type {boolean | null} */
  #poolOpen = null;

  /** @param {() => void} grow */
  constructor(grow) {
    this.more = el(
      "details",
      { class: "bt-more", ontoggle: grow },
      el("summary", {}, tr("Table of every candidate")),
      this.#tableBox,
    );
    const left = el("div", {}, this.#facts, this.#greedy);
    this.below = el("div", { class: "bt-below" }, left, this.#state, this.#pool);
  }

  clear() {
    this.#shownState = "";
    for (const part of [this.#facts, this.#state, this.#pool, this.#greedy, this.#tableBox])
      part.replaceChildren();
    this.headline.replaceChildren();
  }

  /** @param {TreeNode[][]} columns */
  begin(columns) {
    this.#table = createNodeTable(columns);
    this.#tableBox.replaceChildren(this.#table.box);
  }

  /** @param {Run} run */
  grow(run) {
    if (this.more.open) this.#table?.grow(run);
  }

  /**
   * @param {Run} run
   * @param {TreeNode[]} text the leading text
   */
  best(run, text) {
    const end = text.at(-1);
    if (!end) return;
    const sofar =
      run.status === "running"
        ? tr("Best so far, may still change: ")
        : tr("Best when it stopped: ");
    const { sum_logprobs: sum, score } = end.data;
    const detail = run.steps.at(-1)?.detail;
    this.headline.replaceChildren(
      el("b", {}, detail.winner_node_id === null ? sofar : tr("Winner: ")),
      el("q", {}, keepEnd(pathText(run, end).trimStart())),
      el("span", {}, ` ${scoreText(sum, end.column + 1, run.config.length_penalty, score)}`),
    );
  }

  /**
   * @param {Run} run
   * @param {Forest} forest
   * @param {BeamDetail} detail
   */
  greedy(run, forest, detail) {
    this.#greedy.replaceChildren(...createGreedyComparison(run, forest, detail));
  }

  /**
   * @param {Run} run
   * @param {Forest} forest
   * @param {number} index
   */
  state(run, forest, index) {
    const wanted = index + (run.steps[index].detail.stopping ? "!" : "");
    if (this.#shownState === wanted) return;
    this.#shownState = wanted;
    this.#state.replaceChildren(...createSearchState(run, forest, index));
  }

  /**
   * Show the selected node with its actions: fork, ask, fold, and select another node.
   * @param {Run} run
   * @param {TreeNode} node
   * @param {TreeNode[]} members
   * @param {NodeActions} actions
   */
  chosen(run, node, members, { fork, why, hidden, fold, choose, focus, group }) {
    const again = { class: "dp-btn bt-continue" };
    const dropped = listDropped(node).length;
    this.#facts.replaceChildren(
      ...createNodeFacts(run, node, members.length),
      fork ? createButton(tr("Continue from here"), fork, again) : "",
      why ? createButton(isContinued(node) ? tr("Why?") : tr("Why not?"), why, again) : "",
      el(
        "p",
        { class: "bt-text" },
        el("span", {}, tr("Text: ")),
        el("q", {}, pathText(run, node).trimStart()),
      ),
      dropped ? createButton(foldText(hidden, dropped), fold, { class: "dp-btn bt-fold-one" }) : "",
    );
    const attrs = {
      open: this.#poolOpen === null ? focus : this.#poolOpen,
      ontoggle: () => {
        this.#poolOpen = box.open;
      },
    };
    const title = el("summary", {}, tr("The whole pool of this step"), group);
    const box = el("details", attrs, title, createPool(run, node, members, choose));
    this.#pool.replaceChildren(box);
  }
}
