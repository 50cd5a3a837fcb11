// View of the same prompt from left to right, with the figures of both texts.
import { createTable, el } from "../shared/dom.mjs";
import { StepView } from "../shared/step_view.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { formatCount, formatFixed, formatWholePercent, tokensText } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/**
 * The rows of the comparison.
 * @param {FillReport} report
 */
const compareRows = ({ filled, plain }) =>
  [
    /** @type {const} */ ([tr("in any order"), filled]),
    /** @type {const} */ ([tr("from left to right"), plain]),
  ].map(([name, found]) => [
    name,
    formatCount(found.passes),
    formatCount(found.token_ids.length),
    formatFixed(found.perplexity, 1),
    formatWholePercent(found.distinct_2),
  ]);

/**
 * @param {Run} run
 * @param {FillReport | null | undefined} report of its last pass
 */
function createComparison(run, report) {
  if (!report)
    return [
      el("p", { class: "dp-note" }, tr("Both texts are measured when the last word is written.")),
    ];
  return [
    createTable(
      [
        tr("written"),
        tr("passes"),
        tr("tokens"),
        renderTerms(tr("[perplexity]")),
        renderTerms(tr("[distinct-2]")),
      ],
      compareRows(report),
    ),
    el(
      "p",
      { class: "dp-note" },
      renderTerms(
        tr("The main model wrote the second text and measured both ([filled and plain|how])."),
      ),
      " ",
      tr("A text that repeats itself has a low perplexity too, so read both figures together."),
      " ",
      renderTerms(tr("Change the [order of writing], the [block] length or the [entropy bound].")),
    ),
    el(
      "p",
      { class: "fi-plain" },
      el("span", { class: "fi-prompt" }, tokensText(run, run.prompt_ids)),
      tokensText(run, report.plain.token_ids),
    ),
  ];
}

/** @type {ViewSpec} */
export const fillingCompared = {
  title: tr("The same prompt from left to right"),
  tab: tr("Left to right"),
  place: "drawer",
  empty: tr("Passes, perplexity and distinct pairs of words of both texts."),
  mount(root) {
    const box = el("div", { class: "fi-compared" });
    root.append(box);
    return new StepView(
      (run) => box.replaceChildren(...createComparison(run, run.steps.at(-1)?.detail?.report)),
      (run) => [run.steps.length, Boolean(run.steps.at(-1)?.detail?.report)],
    );
  },
};
