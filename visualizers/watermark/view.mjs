// View of the watermark: the colour of every token, which tokens count, and the detector's verdict.
import { createFact, createTable, el } from "../shared/dom.mjs";
import { said } from "../shared/server_text.mjs";
import { renderTerms, term } from "../shared/terms.mjs";
import { formatFixed, formatPercent, formatSetting, tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { formatPValue } from "./p_value.mjs";
import { ScorePlot } from "./plot.mjs";
import { createLegend, createToken } from "./token.mjs";
import { bitsText, isWatermarkStep, stepSummary } from "./words.mjs";

/** @import { Verdict } from "../shared/summaries.d.ts" */

const COLUMNS = [
  tr("step"),
  tr("token"),
  tr("colour"),
  tr("[green list|green share]"),
  tr("[bias]"),
  tr("counted"),
  "[z-score|z]",
];

/** @param {Verdict} verdict */
function verdictText({ prediction, doubtful, z_threshold, distinct_z_score }) {
  const z = formatSetting(z_threshold);
  if (!prediction) return ["no", tr("✗ Not shown to be marked: z is not above {z}.", { z })];
  if (!doubtful) return ["yes", tr("✓ Marked: z is above {z}.", { z })];
  return [
    "doubt",
    tr(
      "? Doubtful: z is above {z} only because repeats are counted; every draw counted once gives {distinct}.",
      { z, distinct: formatFixed(distinct_z_score, 2) },
    ),
  ];
}

/**
 * @param {Verdict} verdict
 * @param {boolean} bits
 */
function createNumbers(verdict, bits) {
  const { hits, trials, distinct_hits, distinct_trials, distinct_z_score } = verdict;
  const [share, chance] = [verdict.fraction, verdict.chance].map(formatPercent);
  return [
    createFact(tr("T (tokens that count)"), verdict.num_tokens_scored),
    createFact(
      bits ? term("g-value", tr("ones")) : term("green list", tr("green")),
      tr("{n} of {total}", { n: hits, total: trials }),
    ),
    createFact(tr("share"), tr("{share}, by chance {chance}", { share, chance })),
    createFact(term("z-score", "z"), formatFixed(verdict.z_score, 2)),
    distinct_trials < trials
      ? createFact(
          tr("without repeats"),
          tr("{n} of {total}, z {z}", {
            n: distinct_hits,
            total: distinct_trials,
            z: formatFixed(distinct_z_score, 2),
          }),
        )
      : "",
    createFact(renderTerms(tr("[p-value|p], exact one-sided")), formatPValue(verdict.p_value)),
  ].filter(Boolean);
}

/**
 * @param {Run} run
 * @param {Step} step
 */
function tokenCells(run, step) {
  const d = step.detail;
  const { z, hits, flips } = stepSummary(run, step);
  const colour = d.is_green === null ? "" : d.is_green ? tr("green") : tr("red");
  const fresh = d.fresh ? tr("yes") : tr("in z, not in p: repeat");
  return [
    step.index + 1,
    tokenLabel(run, step.emit[0]),
    d.g_values.length ? bitsText({ hits, flips }) : colour,
    d.green_fraction === null ? "" : formatPercent(d.green_fraction),
    formatSetting(d.bias),
    d.scored ? fresh : tr("no: {reason}", { reason: said(d.reason) }),
    z === null ? "" : formatFixed(z, 2),
  ];
}

class Watermark {
  /** @type {Run | null} */
  #run = null;
  #chosen = 0;
  #stepCount = 0;
  // Steps of the selected sequence, and the z-score after each.
  /** @type {Step[]} */
  #steps = [];
  /** @type {(number | null)[]} */
  #curve = [];
  /** @type {Map<number, HTMLElement>} */
  #tokens = new Map();

  /**
   * @param {HTMLElement} root
   * @param {Context} ctx
   */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.which = el("select", {
      class: "wm-sequence",
      "aria-label": tr("Sequence"),
      onchange: () => this.#chooseSequence(Number(this.which.value)),
    });
    this.text = el("div", {
      class: "wm-text",
      role: "group",
      "aria-label": tr("Generated text with its watermark"),
    });
    this.verdict = el("p", { class: "wm-verdict", "aria-live": "polite" });
    this.numbers = el("div", { class: "dp-costs" });
    this.facts = el("p", { class: "dp-note wm-facts" });
    this.plot = new ScorePlot();
    this.legend = el("div", { class: "dp-legend" });
    this.tableBody = el("div", {});
    const opened = () => {
      if (this.more.open && this.#run)
        this.tableBody.replaceChildren(this.#createTokenTable(this.#run));
    };
    this.more = el(
      "details",
      { class: "wm-more", ontoggle: opened },
      el("summary", {}, tr("Table of every token")),
      this.tableBody,
    );
    const { which, text, legend, facts, verdict, numbers, plot, more } = this;
    root.append(which, text, legend, facts, verdict, numbers, plot.node, more);
    this.clear();
  }

  clear() {
    this.#chosen = 0;
    this.which.replaceChildren();
    this.which.hidden = true;
    this.#clearText();
  }

  #clearText() {
    this.#stepCount = 0;
    this.#steps = [];
    this.#curve = [];
    this.#tokens = new Map();
    const { text, numbers, tableBody, legend } = this;
    for (const box of [text, numbers, tableBody, legend]) box.replaceChildren();
    this.plot.clear();
    this.verdict.textContent = "";
    this.facts.textContent = "";
  }

  /** @param {number} sequence */
  #chooseSequence(sequence) {
    this.#chosen = sequence;
    this.#clearText();
    if (!this.#run) return;
    this.update(this.#run);
    if (this.#run.selected !== null) this.#markStep(this.#run.selected);
  }

  /** @param {Run} run */
  update(run) {
    this.#run = run;
    for (; this.#stepCount < run.steps.length; this.#stepCount++)
      this.#addStep(run, run.steps[this.#stepCount]);
    const last = this.#steps.at(-1);
    if (!last) return;
    if (!this.legend.childElementCount)
      this.legend.replaceChildren(...createLegend(run, last.detail));
    const shown = stepSummary(run, last);
    this.#showVerdict(shown.verdict, last.detail.g_values.length > 0);
    this.plot.draw(this.#curve, shown.threshold, this.text.clientWidth);
    this.#offerSequences(run);
    if (this.more.open && run.status !== "running")
      this.tableBody.replaceChildren(this.#createTokenTable(run));
  }

  /**
   * @param {Run} run
   * @param {Step} step
   */
  #addStep(run, step) {
    if (!isWatermarkStep(step) || step.sequence !== this.#chosen) return;
    this.#steps.push(step);
    this.#curve.push(stepSummary(run, step).z);
    const choose = () => this.ctx.select(step.index);
    /** @param {string} words */
    const tell = (words) => {
      this.facts.textContent = words;
    };
    const node = createToken(run, step, choose, tell);
    this.#tokens.set(step.index, node);
    this.text.append(node);
  }

  /**
   * @param {Verdict | null} verdict
   * @param {boolean} bits
   */
  #showVerdict(verdict, bits) {
    if (!verdict) {
      this.verdict.textContent = tr("Nothing counts yet.");
      this.numbers.replaceChildren();
      return;
    }
    const [kind, words] = verdictText(verdict);
    this.verdict.className = `wm-verdict ${kind}`;
    this.verdict.textContent = words;
    this.verdict.dataset.p = String(verdict.p_value);
    this.numbers.replaceChildren(...createNumbers(verdict, bits));
  }

  /** @param {Run} run */
  #offerSequences(run) {
    const count = Math.max(...run.steps.map((s) => s.sequence)) + 1;
    if (this.which.childElementCount === count || count < 2) return;
    this.which.hidden = false;
    /**
     * @param {unknown} _
     * @param {number} i
     */
    const option = (_, i) =>
      el("option", { value: i, selected: i === this.#chosen }, tr("Sequence {n}", { n: i + 1 }));
    this.which.replaceChildren(...Array.from({ length: count }, option));
  }

  /** @param {Run} run */
  #createTokenTable(run) {
    const rows = this.#steps.map((step) => tokenCells(run, step));
    return createTable(COLUMNS.map(renderTerms), rows);
  }

  /** @param {number} index */
  #markStep(index) {
    for (const node of this.text.querySelectorAll(".sel")) node.classList.remove("sel");
    const node = this.#tokens.get(index);
    if (!node) return;
    node.classList.add("sel");
    this.facts.textContent = node.getAttribute("aria-label");
  }

  /**
   * @param {Run} _run
   * @param {number} index
   */
  select(_run, index) {
    this.#markStep(index);
  }
}

/** @type {ViewSpec} */
export const watermark = {
  title: tr("The mark in the text"),
  place: "drawer",
  tab: tr("Detector"),
  empty: tr(
    "Every token as the detector sees it: green or red, or its keyed bits; the count, z and p; and z growing along the text.",
  ),
  mount: (root, ctx) => new Watermark(root, ctx),
};
