// View of many draws as a prefix tree: filled bars are
// frequencies, outlined bars exact probabilities.
import { createFact, createScroller, createTable, el } from "../shared/dom.mjs";
import { said } from "../shared/server_text.mjs";
import {
  formatFixed,
  formatPercent,
  formatWholePercent,
  makeVisible,
  pluralText,
} from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { drawTree } from "./picture.mjs";

/** @import { DrawsMessage } from "./picture.mjs" */

const COLUMNS = [
  tr("text"),
  tr("times"),
  tr("share"),
  tr("exact probability"),
  tr("expected times ± one sigma"),
  tr("first seed"),
];
/** @type {Record<string, string>} */
const STATUS_TEXT = {
  running: tr("Drawing… "),
  done: tr("Done: "),
  stopped: tr("Stopped, what was drawn is kept: "),
  recorded: tr("A recorded example, press Draw to make your own: "),
};
const EMPTY_TEXT = tr(
  "Press Draw to see the texts of all seeds as one tree. A branch is as wide as it was frequent, next to the model's own probability.",
);

/** @param {DrawsMessage} message */
const createTextTable = (message) =>
  createTable(
    COLUMNS,
    message.rows.map(([text, times, share, exact, expected, sigma, seed]) => [
      makeVisible(text),
      String(times),
      formatWholePercent(share),
      formatWholePercent(exact),
      `${formatFixed(expected, 1)} ± ${formatFixed(sigma, 1)}`,
      String(seed),
    ]),
  );

/**
 * @param {string} kind
 * @param {string} words
 */
const createKey = (kind, words) => el("span", {}, el("i", { class: `pt-key ${kind}` }), words);

const createLegend = () =>
  el(
    "div",
    { class: "dp-legend" },
    createKey("real", tr("filled: how often it was drawn")),
    createKey("exact", tr("outlined: its exact probability")),
  );

/**
 * @param {string} title
 * @param {...Content} inside
 */
const createCard = (title, ...inside) =>
  el("section", { class: "dp-card", "aria-label": title }, el("h3", {}, title), inside);

/** @param {DrawsMessage} message */
function statusText({ kind, draws, wanted, seconds }) {
  const time = seconds ? tr(" in {seconds} s", { seconds: formatFixed(seconds, 1) }) : "";
  const done = pluralText(
    wanted,
    tr("{draws} of 1 draw", { draws }),
    tr("{draws} of {n} draws", { draws }),
  );
  return `${STATUS_TEXT[kind]}${done}${time}`;
}

class PrefixTree {
  // Status text of the shown draws.
  #statusWords = "";

  /** @param {HTMLElement} root */
  constructor(root) {
    this.status = el("div", { class: "dp-status", role: "status", "aria-live": "polite" });
    this.bar = el("progress", { max: 1, value: 0, "aria-label": tr("Draws done") });
    this.facts = el("div", { class: "dp-costs" });
    this.inexact = el("p", { class: "dp-note" });
    this.tree = createScroller(tr("Tree of the draws"));
    this.tree.className = "dp-scroll pt-scroll";
    this.list = el("div", {});
    this.drawn = createCard(
      tr("Tree of beginnings"),
      this.facts,
      this.inexact,
      createLegend(),
      this.tree,
    );
    this.texts = createCard(tr("Different texts, the most frequent first"), this.list);
    this.empty = el("p", { class: "dp-empty" }, EMPTY_TEXT);
    const first = el("section", { class: "dp-card" }, this.status, this.bar, this.empty);
    root.replaceChildren(first, this.drawn, this.texts);
    for (const part of [this.bar, this.drawn, this.texts]) part.hidden = true;
  }

  /**
   * Show the activity; without one, the status of the draws.
   * @param {Activity | undefined} activity
   */
  say(activity) {
    const busy = activity && activity.phase !== "stopped";
    this.status.classList.toggle("busy", !!busy);
    this.status.textContent = said(activity?.says) || this.#statusWords;
    if (busy) this.status.classList.remove("bad");
  }

  /** @param {DrawsMessage} message */
  show(message) {
    const failed = message.kind === "failed";
    this.status.className = `dp-status${failed ? " bad" : ""}`;
    this.#statusWords = failed ? said(message.error ?? "") : statusText(message);
    this.status.textContent = this.#statusWords;
    this.bar.hidden = message.kind !== "running";
    if (failed) return;
    this.empty.hidden = true;
    this.bar.max = message.wanted;
    this.bar.value = message.draws;
    this.drawn.hidden = !message.draws;
    this.texts.hidden = !message.draws;
    if (message.draws) this.#showTree(message);
  }

  /** @param {string} sentence */
  refuse(sentence) {
    this.status.className = "dp-status bad";
    this.status.textContent = said(sentence);
  }

  // A phone shows a part of the tree: the part where it begins.
  #scrollToRoot() {
    const root = this.tree.querySelector(".pt-node.root .pt-real");
    const middle = Number(root?.getAttribute("y")) + Number(root?.getAttribute("height")) / 2;
    this.tree.scrollTop = middle - this.tree.clientHeight / 2;
  }

  /** @param {DrawsMessage} message */
  #showTree(message) {
    this.facts.replaceChildren(
      createFact(tr("draws"), message.draws),
      createFact(tr("different texts"), message.distinct),
      createFact(tr("probability they hold together"), formatWholePercent(message.covered)),
    );
    this.inexact.hidden = !message.inexact;
    this.inexact.textContent = tr(
      "The server lists only a part of the tokens that these settings keep. The probabilities are exact for these draws; at a step, those of the whole vocabulary may differ from them by up to {share}.",
      { share: formatPercent(message.inexact ?? 0) },
    );
    const isFirst = !this.tree.childElementCount;
    this.tree.replaceChildren(drawTree(message, this.tree.clientWidth));
    if (isFirst) this.#scrollToRoot();
    const shown = message.rows.length;
    const rest = pluralText(
      message.distinct,
      tr("The {shown} most frequent of 1 text.", { shown }),
      tr("The {shown} most frequent of {n} texts.", { shown }),
    );
    this.list.replaceChildren(
      createTextTable(message),
      message.distinct > shown ? el("p", { class: "dp-note" }, rest) : "",
    );
  }
}

/** @param {HTMLElement} root */
export const createPrefixTree = (root) => new PrefixTree(root);
