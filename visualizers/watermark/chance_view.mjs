// View of the watermark's count: what chance alone gives, and where this text is.
import { el } from "../shared/dom.mjs";
import { StepView } from "../shared/step_view.mjs";
import { formatFixed, formatPercent, toCssLength } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { isWatermarkStep, stepSummary } from "./words.mjs";

/** @import { Verdict } from "../shared/summaries.d.ts" */

/**
 * The place of a count on the line, from 0 to 1. The line begins and ends a little beyond what is on it.
 * @drawing
 * @param {Verdict} verdict
 */
function createScale({
  hits,
  trials,
  by_chance: { two_sd_below: low, two_sd_above: high, needed },
}) {
  const beyond = (high - low) / 2 || 1;
  const from = Math.max(0, Math.min(low, hits) - beyond);
  const to = Math.min(trials, Math.max(high, needed, hits) + beyond);
  return (/** @type {number} */ count) =>
    Math.max(0, Math.min(1, (count - from) / (to - from || 1)));
}

/**
 * A whole number of hits.
 * @drawing
 * @param {number} count
 */
const formatHits = (count) => String(Math.round(count));

/**
 * @param {string} kind
 * @param {number} at from 0 to 1
 * @param {string} words
 */
const createSign = (kind, at, words) =>
  el(
    "span",
    { class: `wc-sign wc-${kind}${at > 0.5 ? " left" : ""}`, style: { left: toCssLength(at) } },
    el("span", {}, words),
  );

/** @param {Verdict} verdict */
function createLine(verdict) {
  const { hits, z_score: z, by_chance: chance, p_value: p } = verdict;
  const at = createScale(verdict);
  const band = el("i", { class: "wc-band" });
  const values = { n: formatHits(chance.expected), hits, p: formatPercent(p) };
  const needed = formatHits(chance.needed);
  Object.assign(band.style, {
    left: toCssLength(at(chance.two_sd_below)),
    right: toCssLength(1 - at(chance.two_sd_above)),
  });
  return el(
    "div",
    {
      class: "wc-line",
      role: "img",
      "aria-label": tr(
        "Hits by chance: about {n}. This text: {hits}. {p} of unmarked texts reach that.",
        values,
      ),
    },
    createSign("text", at(hits), tr("this text: {hits} (z = {z})", { hits, z: formatFixed(z, 1) })),
    el("span", { class: "wc-axis" }, band),
    createSign("chance", at(chance.expected), tr("chance: about {n}", values)),
    createSign("needed", at(chance.needed), tr("detected above {needed}", { needed })),
  );
}

/** @type {ViewSpec} */
export const watermarkChance = {
  title: tr("Hits of the text, compared with chance"),
  heading: false,
  picture: true,
  recorded: true,
  mount(root) {
    const box = el("div", { class: "wc" });
    root.append(box);
    /**
     * The last step so far of the text that the selected step is of.
     * @param {Run} run
     * @param {Step} step
     */
    const last = (run, step) =>
      run.steps.findLast((other) => other.sequence === step.sequence && isWatermarkStep(other));
    return new StepView(
      (run, step) => {
        const end = last(run, step);
        const verdict = end && stepSummary(run, end).verdict;
        if (!verdict)
          return box.replaceChildren(el("p", { class: "dp-note" }, tr("Nothing counts yet.")));
        const p = formatPercent(verdict.p_value);
        box.replaceChildren(
          createLine(verdict),
          el("p", { class: "dp-note" }, tr("{p} of unmarked texts reach at least as many.", { p })),
        );
      },
      (run, step) => [last(run, step)?.index],
    );
  },
};
