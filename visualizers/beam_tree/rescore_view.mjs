// View that ranks the texts of a finished search with another length penalty.
import { createButton, el } from "../shared/dom.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { formatFixed, formatNumber, formatPowerOfTen, tokensText } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { createEntry } from "./info.mjs";
import { rescore } from "./rescore.mjs";

/** @import { RankedText } from "./rescore.mjs" */

const MAX_SHOWN = 12;
const SCORE_FORMULA = tr(
  "The [score] of a text is the [sum of log-probabilities|sum of its log-probabilities] ÷ its number of new tokens ^ length penalty. The prompt does not count, the end mark does.",
);

/** @param {number} x */
const formatDivisor = (x) => (x >= 0.001 && x < 1e6 ? formatNumber(x) : formatPowerOfTen(x));

/** @param {number} places */
const createMove = (places) => {
  if (!places) return null;
  const n = Math.abs(places);
  return el(
    "span",
    { class: "move" },
    places > 0 ? tr("▲ up {n}", { n }) : tr("▼ down {n}", { n }),
  );
};

class RescorePanel {
  /** @type {Run | null} */
  #run = null;
  /** @type {Map<number, BeamNode>} */
  #nodes = new Map();

  /** @param {HTMLElement} root */
  constructor(root) {
    this.slider = el("input", {
      type: "range",
      min: -2,
      max: 5,
      step: 0.1,
      "aria-label": tr("Length penalty"),
      oninput: () => this.#showRanking(),
    });
    this.back = createButton(tr("As it ran"), () => {
      this.slider.value = this.#run?.config.length_penalty;
      this.#showRanking();
    });
    this.value = el("output", { class: "br-value" });
    this.note = el("p", { class: "dp-note", "aria-live": "polite" });
    this.list = el("div", { class: "br-list" });
    this.waiting = el(
      "p",
      { class: "dp-empty" },
      tr("The finished texts are ranked here when the search has ended."),
    );
    const label = el("label", { class: "dp-row br-slider" }, tr("Length penalty "), this.slider);
    this.body = el(
      "div",
      {},
      el("div", { class: "dp-row br-slider" }, label, this.value, this.back),
      this.note,
      this.list,
      el("p", { class: "dp-note" }, renderTerms(SCORE_FORMULA)),
    );
    root.append(this.waiting, this.body);
    this.body.hidden = true;
  }

  #showRanking() {
    if (!this.#run) return;
    const run = this.#run;
    const own = run.config.length_penalty;
    const penalty = Number(this.slider.value);
    const same = Math.abs(penalty - own) < 1e-9;
    const result = rescore(run, penalty);
    const winner = run.steps.at(-1)?.detail.winner_node_id;
    this.value.textContent = formatFixed(penalty, 1) + (same ? tr(" (as it ran)") : "");
    this.back.toggleAttribute("disabled", same);
    this.#showNote(result, winner);
    const before = new Map(rescore(run, own).lines.map((line, i) => [line.node.node_id, i]));
    const items = result.lines
      .slice(0, MAX_SHOWN)
      .map((line, i) =>
        this.#createItem(run, line, i, (before.get(line.node.node_id) ?? i) - i, penalty, winner),
      );
    items[0]?.classList.add("first");
    const attrs = {
      class: "bt-heap",
      tabindex: 0,
      "aria-label": tr("Finished texts with this length penalty, best first"),
    };
    this.list.replaceChildren(el("ol", attrs, items));
    if (result.lines.length > MAX_SHOWN)
      this.list.append(
        el("p", { class: "dp-note" }, tr("and {n} more", { n: result.lines.length - MAX_SHOWN })),
      );
  }

  /**
   * @param {ReturnType<typeof rescore>} result
   * @param {number | null} winner
   */
  #showNote({ lines, end, rerun }, winner) {
    const first = lines[0]?.node.node_id;
    const who = first === winner ? tr("The winner stays the same.") : tr("Another text would win.");
    const exact = rerun
      ? `${rerun} ${tr("Run it again to see that search: it may know other texts.")}`
      : tr("The search would have stopped where it did, so this ranking is exact.");
    this.note.textContent = `${who} ${exact}`;
    this.note.dataset.first = String(first);
    this.note.dataset.end = String(end);
  }

  /**
   * @param {Run} run
   * @param {RankedText} line
   * @param {number} i
   * @param {number} moved
   * @param {number} penalty
   * @param {number | null} winner
   */
  #createItem(run, { node, length, divisor, score }, i, moved, penalty, winner) {
    const sum = formatFixed(node.sum_logprobs);
    const written = `${sum} ÷ ${length}^${formatFixed(penalty, 1)} = ${sum} ÷ ${formatDivisor(divisor)} = ${formatFixed(score)}`;
    const place = (node.node_id === winner ? "★ " : "") + (i + 1);
    return createEntry(place, written, this.#nodeText(run, node.node_id), createMove(moved));
  }

  /**
   * @param {Run} run
   * @param {number} id
   */
  #nodeText(run, id) {
    const ids = [];
    for (let at = this.#nodes.get(id); at; at = this.#nodes.get(at.parent_id))
      ids.unshift(at.token_id);
    return tokensText(run, ids);
  }

  /** @param {Run} run */
  update(run) {
    const detail = run.steps.at(-1)?.detail;
    const ready = Boolean(detail && detail.kind === "beam" && detail.stopping);
    this.waiting.hidden = ready;
    this.body.hidden = !ready;
    if (!ready || this.#run === run) return;
    this.#run = run;
    const pools = run.steps.map((step) => /** @type {BeamNode[]} */ (step.detail.pool));
    this.#nodes = new Map(pools.flat().map((node) => [node.node_id, node]));
    this.slider.value = run.config.length_penalty;
    this.#showRanking();
  }

  select() {}

  clear() {
    this.#run = null;
    this.list.replaceChildren();
    this.note.textContent = "";
    this.body.hidden = true;
    this.waiting.hidden = false;
  }
}

/** @type {ViewSpec} */
export const beamRescore = {
  title: tr("Another length penalty"),
  place: "drawer",
  tab: tr("Length penalty"),
  empty: tr(
    "When the search has ended: the finished texts ranked with any length penalty, without running again.",
  ),
  mount: (root) => new RescorePanel(root),
};
