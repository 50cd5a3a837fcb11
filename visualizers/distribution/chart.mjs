// View of surprise and entropy over the steps of an output.
import { Curves } from "../shared/curves.mjs";
import { findSelectedSequence, hasSeveralOutputs } from "../shared/record.mjs";
import { tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

const CHART_LABEL = tr(
  "Surprise of the emitted token for the model, and entropy of the model's distribution and of the one that was used, in bits, over the steps of the text",
);

/**
 * The curves of a run that a server decoded: the surprise, and the bounds of the entropy.
 * @param {Run} run
 * @param {Step[]} steps
 * @returns {import("../shared/curves.mjs").Curve[]}
 */
function createServedCurves(run, steps) {
  const x = steps.map((s) => s.index + 1);
  const shown = steps.map((s) => run.shown[s.index].chart);
  const own = steps.every((s) => s.detail?.distribution === "model");
  /** @type {"dot"} */
  const dash = "dot";
  return [
    {
      name: tr("entropy at most"),
      color: "violet",
      dash,
      x,
      y: shown.map((values) => values.entropy_high ?? null),
    },
    {
      name: tr("entropy at least"),
      color: "good",
      dash,
      x,
      y: shown.map((values) => values.entropy_low ?? null),
    },
    {
      name: own ? tr("surprise (model)") : tr("surprise (as reported)"),
      color: "accent",
      dots: true,
      x,
      y: shown.map((values) => values.surprise),
      text: steps.map((s) => s.emit.map((id) => tokenLabel(run, id)).join("")),
    },
  ];
}

/**
 * The curves of one output; steps count from 1.
 * @param {Run} run
 * @param {number} sequence
 * @returns {import("../shared/curves.mjs").Curve[]}
 */
function createCurves(run, sequence) {
  const steps = run.steps.filter((s) => s.sequence === sequence);
  const x = steps.map((s) => s.index + 1);
  const shown = steps.map((s) => run.shown[s.index].chart);
  const own = shown.map((values) => values.entropy);
  const used = shown.map((values) => values.entropy_used);
  const changed = steps.some((s) => s.stages.length);
  if (run.served) return createServedCurves(run, steps);
  return [
    {
      name: changed ? tr("entropy (model)") : tr("entropy"),
      color: "violet",
      dash: "dot",
      x,
      y: own,
    },
    ...(changed
      ? [
          {
            name: tr("entropy (with your settings)"),
            color: "good",
            dash: /** @type {"dash"} */ ("dash"),
            x,
            y: used,
          },
        ]
      : []),
    {
      name: tr("surprise (model)"),
      color: "accent",
      dots: true,
      x,
      y: shown.map((values) => values.surprise),
      text: steps.map((s) => s.emit.map((id) => tokenLabel(run, id)).join("")),
    },
  ];
}

class Chart {
  #drawnKey = "";

  /**
   * @param {HTMLElement} root
   * @param {Context} ctx
   */
  constructor(root, ctx) {
    this.curves = new Curves(CHART_LABEL, (step) => ctx.select(step - 1));
    this.curves.node.classList.add("dp-plot-of-steps");
    root.append(this.curves.node);
  }

  /** @param {Run} run */
  update(run) {
    const wanted = `${run.id} ${run.steps.length} ${run.selected}`;
    if (!run.steps.length || wanted === this.#drawnKey) return;
    this.#drawnKey = wanted;
    const sequence = findSelectedSequence(run);
    const mark = run.selected === null ? null : run.selected + 1;
    const title = hasSeveralOutputs(run)
      ? tr("step (output {n})", { n: sequence + 1 })
      : tr("step");
    this.curves.draw(createCurves(run, sequence), { x: title, y: tr("bits") }, mark);
    Object.assign(this.curves.node.dataset, { sequence, mark: mark ?? 0 });
  }

  select() {}

  clear() {
    this.#drawnKey = "";
    this.curves.clear();
  }
}

/** @type {ViewSpec} */
export const chart = {
  title: tr("Surprise and entropy over the text"),
  place: "drawer",
  tab: tr("Curve"),
  empty: tr("How sure the model was at each token, and how surprising the chosen token was."),
  heading: tr("[surprise|Surprise] and [entropy] over the text"),
  mount: (root, ctx) => new Chart(root, ctx),
};
