// The verdict of a comparison: where the texts diverge, and what the measures say of them.
import { divergenceText } from "../../../visualizers/compare/divergence.mjs";
import { verdictSentences } from "../../../visualizers/compare/verdict.mjs";
import { el } from "../../../visualizers/shared/dom.mjs";
import { formatCount } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

/** @import { CompareFigures } from "../../../visualizers/compare/view.mjs" */

const EMPTY = tr(
  "Press Run all: every text continues the same prompt, and one model judges all of them.",
);

/**
 * Where the texts of a comparison diverge.
 * @typedef {NonNullable<Run["parting"]>} Parting
 */

/**
 * Return a sentence that says how long the common beginning of the texts is.
 * @param {Parting} parting
 * @param {boolean} over
 */
function leadSentence({ common, at }, over) {
  if (at !== null) return divergenceText(common);
  const n = formatCount(common);
  if (over)
    return common === 1
      ? tr("All texts are the same, token for token: 1 token.")
      : tr("All texts are the same, token for token: {n} tokens.", { n });
  return common === 1 ? tr("The same so far: 1 token.") : tr("The same so far: {n} tokens.", { n });
}

/**
 * For more than two texts: return a sentence on the two that stay the same longest, if they do so
 * for longer than all texts.
 * @param {Parting} parting
 * @param {string[]} labels of the columns
 * @param {boolean} over
 */
function closestSentence({ common, pairs }, labels, over) {
  const [closest] = pairs.toSorted((a, b) => b.common - a.common);
  if (pairs.length < 2 || closest.common <= common) return "";
  const [one, other] = [labels[closest.a], labels[closest.b]];
  if (closest.at === null && over)
    return tr("{one} and {other} are the same, token for token.", { one, other });
  return closest.common === 1
    ? tr("{one} and {other} agree longest: their first token is the same.", { one, other })
    : tr("{one} and {other} agree longest: their first {n} tokens are the same.", {
        one,
        other,
        n: closest.common,
      });
}

/**
 * Create the verdict, which is updated whenever a text or the figures change.
 * @param {any} spec what the server declares for the page
 */
export function createVerdict(spec) {
  const node = el("section", { class: "cmp-verdict", "aria-label": tr("Verdict") });
  /** @param {string} name */
  const modelTitle = (name) =>
    spec.models.find((/** @type {any} */ m) => m.name === name)?.title.split(/ [·(]/)[0] ?? name;
  return {
    node,
    clear() {
      delete node.dataset.at;
      node.replaceChildren(el("p", { class: "dp-empty" }, EMPTY));
    },
    /**
     * @param {Parting} parting of the texts shown
     * @param {boolean} over whether all texts have ended
     * @param {CompareFigures | null} figures
     */
    show(parting, over, figures) {
      const findings = [
        closestSentence(parting, spec.compare.labels, over),
        ...(figures ? verdictSentences(figures.verdict, modelTitle(figures.base)) : []),
      ].filter(Boolean);
      node.dataset.at = String(parting.at ?? "");
      node.replaceChildren(
        el("p", { class: "cmp-lead" }, leadSentence(parting, over)),
        ...(findings.length ? [el("p", { class: "cmp-findings" }, findings.join(" "))] : []),
      );
    },
  };
}
