// View of the candidates of a contrastive search: how likely each is, and how alike earlier words.
import { el } from "../shared/dom.mjs";
import { createPairBars } from "../shared/pair_bars.mjs";
import { StepView } from "../shared/step_view.mjs";
import { formatFixed, tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { contextIds, isContrastiveStep, tokenAt } from "./words.mjs";

/**
 * @param {Run} run
 * @param {Step} step
 */
function createPairs(run, step) {
  /** @type {ContrastiveDetail} */
  const { options, chosen } = step.detail;
  const ids = contextIds(run, step.index);
  const rows = options.map((option, k) => {
    const { confidence, degeneration_penalty: penalty, score, position } = option;
    const word = tokenLabel(run, option.token_id);
    const values = { word, like: tokenAt(run, ids, position), score: formatFixed(score, 2) };
    return {
      word: word.replace(/^·/, ""),
      values: [confidence, penalty],
      sign: values.score,
      said:
        k === chosen
          ? tr("“{word}”, chosen: score {score}; most alike “{like}”", values)
          : tr("“{word}”: score {score}; most alike “{like}”", values),
      on: k === chosen,
    };
  });
  const longest = Math.max(...rows.flatMap(({ values }) => values)) || 1;
  return createPairBars(rows, [tr("how likely"), tr("how alike")], longest);
}

/** @type {ViewSpec} */
export const contrastivePairs = {
  title: tr("How likely and how alike each candidate is"),
  heading: false,
  picture: true,
  recorded: true,
  mount(root) {
    const box = el("div", {});
    root.append(box);
    return new StepView((run, step) =>
      box.replaceChildren(...(isContrastiveStep(step) ? [createPairs(run, step)] : [])),
    );
  },
};
