// One token of the text with its colour (green or red) or its number of keyed bits.
import { el } from "../shared/dom.mjs";
import { tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { describeToken, stepSummary } from "./words.mjs";

/** @import { WatermarkSummary } from "../shared/summaries.d.ts" */

/**
 * @param {WatermarkDetail} detail
 * @param {WatermarkSummary} shown
 */
function tokenKind(detail, { hits }) {
  if (!detail.scored) return ["skip", "–"];
  if (detail.g_values.length) return ["bits", String(hits)];
  return detail.is_green ? ["green", "G"] : ["red", "R"];
}

/**
 * @param {Run} run
 * @param {Step} step
 * @param {() => void} choose
 * @param {(words: string) => void} tell
 */
export function createToken(run, step, choose, tell) {
  const said = describeToken(run, step);
  const shown = stepSummary(run, step);
  const [kind, label] = tokenKind(step.detail, shown);
  const show = () => tell(said);
  const node = el(
    "span",
    {
      class: `wm-tok ${kind}`,
      role: "button",
      tabindex: 0,
      "aria-label": said,
      onclick: choose,
      onfocus: show,
      onmouseenter: show,
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        choose();
      },
    },
    el("span", { class: "t" }, tokenLabel(run, step.emit[0]).replace(/^·/, " ")),
    el("i", { "aria-hidden": "true" }, label),
  );
  if (kind === "bits") node.style.setProperty("--share", String(shown.share));
  return node;
}

/**
 * @param {Run} run
 * @param {WatermarkDetail} detail
 */
export function createLegend(run, detail) {
  /**
   * @param {string} kind
   * @param {string} mark
   * @param {string} words
   */
  const sign = (kind, mark, words) =>
    el("span", {}, el("b", { class: `wm-tok ${kind}` }, mark), words);
  const skipped = sign("skip", "–", tr(" not counted"));
  if (detail.scheme !== "synthid")
    return [sign("green", "G", tr(" green")), sign("red", "R", tr(" red")), skipped];
  const bits = (run.config.keys || []).length;
  return [el("span", {}, tr("number: keyed bits that are ones, of {bits}", { bits })), skipped];
}
