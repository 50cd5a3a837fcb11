// The watermark in the text: every token's colour, what counts, and how sure a detector may be.
import { el, fact, table } from "../shared/dom.mjs";
import { fixed, piece } from "../shared/text.mjs";
import { Plot } from "./plot.mjs";
import { binomialTail, power, zOf } from "./statistics.mjs";
import { legendOf, tokenOf } from "./token.mjs";
import { bitsOf, hitsOf, isMarked, shareOf } from "./words.mjs";

const thresholdOf = (run) => run.config.z_threshold ?? 3;

// What has been counted: every draw for z, each draw once for p.
class Count {
  trials = 0;
  hits = 0;
  scored = 0;
  once = { trials: 0, hits: 0 };
  // z after every token, null before the first that counts.
  curve = [];

  add(detail) {
    const flips = Math.max(1, detail.g_values.length);
    if (detail.scored) {
      this.trials += flips;
      this.hits += hitsOf(detail);
      this.scored++;
    }
    if (detail.scored && detail.fresh) {
      this.once.trials += flips;
      this.once.hits += hitsOf(detail);
    }
    this.curve.push(this.trials ? zOf(this.hits, this.trials, detail.expected) : null);
  }
}

function verdictOf(z, distinct, threshold) {
  if (z <= threshold) return ["no", `✗ Not shown to be marked: z is not above ${threshold}.`];
  if (distinct > threshold) return ["yes", `✓ Marked: z is above ${threshold}.`];
  return [
    "doubt",
    `? Doubtful: z is above ${threshold} only because repeats are counted; every draw counted once gives ${fixed(distinct, 2)}.`,
  ];
}

function numbersOf({ scored, hits, trials, once }, detail, { z, distinct, p }) {
  const share = (100 * hits) / trials;
  const { chance } = detail;
  return [
    fact("T (tokens that count)", scored),
    fact(detail.g_values.length ? "ones" : "green", `${hits} of ${trials}`),
    fact("share", `${share.toFixed(1)} %, by chance ${(100 * chance).toFixed(1)} %`),
    fact("z", fixed(z, 2)),
    once.trials < trials
      ? fact("without repeats", `${once.hits} of ${once.trials}, z ${fixed(distinct, 2)}`)
      : "",
    fact("p, exact one-sided", power(p)),
  ].filter(Boolean);
}

/**
 * @param {Run} run
 * @param {Step} step
 */
function rowOf(run, step, z) {
  const d = step.detail;
  const colour = d.is_green === null ? "" : d.is_green ? "green" : "red";
  const fresh = d.fresh ? "yes" : "in z, not in p: repeat";
  return [
    step.index + 1,
    piece(run, step.emit[0]),
    d.g_values.length ? bitsOf(d) : colour,
    d.green_fraction === null ? "" : shareOf(d),
    d.bias,
    d.scored ? fresh : `no: ${d.reason}`,
    z === null ? "" : fixed(z, 2),
  ];
}

class Watermark {
  #run = null;
  #chosen = 0;
  #seen = 0;
  #count = new Count();
  #tokens = new Map();

  /** @param {Context} ctx */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.which = el("select", {
      class: "wm-which",
      "aria-label": "Sequence",
      onchange: () => this.#choose(Number(this.which.value)),
    });
    this.text = el("div", {
      class: "wm-text",
      role: "group",
      "aria-label": "Generated text with its watermark",
    });
    this.verdict = el("p", { class: "wm-verdict", "aria-live": "polite" });
    this.numbers = el("div", { class: "dp-costs" });
    this.facts = el("p", { class: "dp-note wm-facts" });
    this.plot = new Plot();
    this.legend = el("div", { class: "dp-legend" });
    this.tableBody = el("div", {});
    const opened = () => {
      if (this.more.open && this.#run) this.tableBody.replaceChildren(this.#table());
    };
    this.more = el(
      "details",
      { class: "wm-more", ontoggle: opened },
      el("summary", {}, "Table of every token"),
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
    this.#wipe();
  }

  #wipe() {
    this.#seen = 0;
    this.#count = new Count();
    this.#tokens = new Map();
    const { text, numbers, tableBody, legend } = this;
    for (const box of [text, numbers, tableBody, legend]) box.replaceChildren();
    this.plot.clear();
    this.verdict.textContent = "";
    this.facts.textContent = "";
  }

  #choose(sequence) {
    this.#chosen = sequence;
    this.#wipe();
    this.update(this.#run);
    if (this.#run.selected !== null) this.#mark(this.#run.selected);
  }

  /** @param {Run} run */
  update(run) {
    this.#run = run;
    for (; this.#seen < run.steps.length; this.#seen++) this.#take(run.steps[this.#seen]);
    const first = run.steps.find((s) => s.sequence === this.#chosen);
    if (!first) return;
    if (!this.legend.childElementCount) this.legend.replaceChildren(...legendOf(run, first.detail));
    this.#judge(first.detail);
    this.plot.draw(this.#count.curve, thresholdOf(run), this.text.clientWidth);
    this.#offerSequences();
    if (this.more.open && run.status !== "running") this.tableBody.replaceChildren(this.#table());
  }

  /** @param {Step} step */
  #take(step) {
    if (!isMarked(step) || step.sequence !== this.#chosen) return;
    this.#count.add(step.detail);
    const choose = () => this.ctx.select(step.index);
    const tell = (words) => {
      this.facts.textContent = words;
    };
    const node = tokenOf(this.#run, step, choose, tell);
    this.#tokens.set(step.index, node);
    this.text.append(node);
  }

  #judge(detail) {
    const z = this.#count.curve.at(-1) ?? null;
    if (z === null) {
      this.verdict.textContent = "Nothing counts yet.";
      this.numbers.replaceChildren();
      return;
    }
    const { hits, trials } = this.#count.once;
    const p = binomialTail(hits, trials, detail.chance);
    const distinct = zOf(hits, trials, detail.expected);
    const [kind, words] = verdictOf(z, distinct, thresholdOf(this.#run));
    this.verdict.className = `wm-verdict ${kind}`;
    this.verdict.textContent = words;
    this.verdict.dataset.p = String(p);
    this.numbers.replaceChildren(...numbersOf(this.#count, detail, { z, distinct, p }));
  }

  #offerSequences() {
    const count = Math.max(...this.#run.steps.map((s) => s.sequence)) + 1;
    if (this.which.childElementCount === count || count < 2) return;
    this.which.hidden = false;
    const option = (_, i) =>
      el("option", { value: i, selected: i === this.#chosen }, `Sequence ${i + 1}`);
    this.which.replaceChildren(...Array.from({ length: count }, option));
  }

  #table() {
    const steps = this.#run.steps.filter((s) => s.sequence === this.#chosen && s.detail);
    const rows = steps.map((step, i) => rowOf(this.#run, step, this.#count.curve[i]));
    return table(["step", "token", "colour", "green share", "bias", "counted", "z"], rows);
  }

  #mark(index) {
    for (const node of this.text.querySelectorAll(".sel")) node.classList.remove("sel");
    const node = this.#tokens.get(index);
    if (!node) return;
    node.classList.add("sel");
    this.facts.textContent = node.getAttribute("aria-label");
  }

  /** @param {Run} _run */
  select(_run, index) {
    this.#mark(index);
  }
}

/** @type {ViewSpec} */
export const watermark = {
  title: "The mark in the text",
  empty:
    "Every token as the detector sees it: green or red, or its keyed bits; the count, z and p; and z growing along the text.",
  wide: true,
  mount: (root, ctx) => new Watermark(root, ctx),
};
