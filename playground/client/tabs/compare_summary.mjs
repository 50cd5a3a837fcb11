// Summaries of a comparison: the common beginning, the divergence, and the weights of each column.
import {
  createSideView,
  describeSide,
  divergenceText,
  pairDivergenceText,
} from "../../../visualizers/compare/divergence.mjs";
import { el } from "../../../visualizers/shared/dom.mjs";
import { tokenLabel } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { weightsSentence, weightsSummary } from "../forms/model_picker.mjs";
import { said as inWords } from "../forms/settings.mjs";
import { store } from "../shell/page_state.mjs";

/** @import { createStrategyForm } from "../forms/strategy_form.mjs" */

/**
 * Where the texts of a comparison diverge.
 * @typedef {NonNullable<Run["parting"]>} Parting
 */

/**
 * What the summaries need of a column.
 * @typedef {object} Column
 * @property {string} label
 * @property {string} key of its stage
 * @property {HTMLElement} held shows its weights
 * @property {HTMLElement} stage
 * @property {ReturnType<typeof createStrategyForm>} form
 */

/**
 * Return a sentence that says how long the common beginning of the texts is.
 * @param {Parting} parting
 * @param {boolean} over
 */
export function leadSentence({ common, at }, over) {
  if (at !== null) return divergenceText(common);
  const n = common.toLocaleString("en");
  if (over)
    return common === 1
      ? tr("All texts are the same, token for token: 1 token.")
      : tr("All texts are the same, token for token: {n} tokens.", { n });
  return common === 1 ? tr("The same so far: 1 token.") : tr("The same so far: {n} tokens.", { n });
}

/**
 * For more than two texts: return a list of where each pair diverges.
 * @param {Parting} parting
 * @param {string[]} labels of the columns
 * @param {boolean} over
 */
export function pairList({ pairs }, labels, over) {
  if (pairs.length < 2) return [];
  /** @param {Parting["pairs"][number]} pair */
  const item = (pair) => {
    const names = tr("{one} and {other}", { one: labels[pair.a], other: labels[pair.b] });
    return el("li", {}, pairDivergenceText(pair, names, over));
  };
  return [
    el(
      "ul",
      { class: "cmp-pairs", "aria-label": tr("Where each two texts diverge") },
      pairs.map(item),
    ),
  ];
}

/**
 * Return the token and candidates of one run at the divergence.
 * @param {Column} column
 * @param {Run} run
 * @param {number} at
 */
export function columnDetails({ label, form }, run, at) {
  const seen = describeSide(run, at);
  const word = seen.token && tr("“{word}”", { word: tokenLabel(run, seen.token.id) });
  const wrote = word ? [tr(": wrote "), el("b", { class: "cmp-word" }, word)] : [];
  return el(
    "div",
    {},
    el("h4", {}, `${label} · ${form.title()}`, ...wrote),
    createSideView(run, seen),
  );
}

/**
 * Show a column's dtype and device: those of its run, else the changed weight settings.
 * @param {Column} column
 */
export function showWeights({ held, form, key }) {
  const { model, assistant } = store.shown(key) ?? {};
  const asked = Object.entries(form.held()).map(([name, value]) => `${name} ${inWords(value)}`);
  const run = model?.id ? [model, assistant].filter(Boolean) : [];
  const [own, draft] = run.map(weightsSummary);
  const ways =
    own && [own, draft && tr("draft {held}", { held: draft })].filter(Boolean).join(" · ");
  held.textContent = ways ?? asked.join(", ");
  held.title = run.map(weightsSentence).join(" ");
}

/**
 * Mark the common tokens of a column, and the first token that differs.
 * @param {Column} column
 * @param {Parting} parting
 */
export function markTokens({ stage }, { common, at }) {
  const line = stage.querySelector(".dp-strip > div");
  const nodes = line ? [...line.querySelectorAll(".dp-tok")] : [];
  nodes.forEach((node, i) => {
    node.classList.toggle("cmp-common", i < common);
    node.classList.toggle("cmp-different", i === at);
  });
}
