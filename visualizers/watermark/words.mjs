// Texts on a token as the detector sees it.
import { said } from "../shared/server_text.mjs";
import { formatPercent, formatSetting, quoteText, tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @import { WatermarkSummary } from "../shared/summaries.d.ts" */

/** @param {Step} step */
export const isWatermarkStep = (step) => step.detail?.kind === "watermark";

/**
 * The summary of a step.
 * @param {Run} run
 * @param {Step} step
 * @returns {WatermarkSummary}
 */
export const stepSummary = (run, step) => run.shown[step.index].watermark;

/** @param {{ hits: number, flips: number }} shown */
export const bitsText = ({ hits, flips }) => tr("{n} of {total}", { n: hits, total: flips });

/**
 * @param {WatermarkDetail} detail
 * @param {WatermarkSummary} shown
 */
function colourText(detail, shown) {
  if (detail.g_values.length) return tr("{bits} keyed bits are ones", { bits: bitsText(shown) });
  if (detail.is_green === null) return tr("no list was chosen");
  const raised = detail.bias
    ? tr("; its logit was raised by {bias}", { bias: formatSetting(detail.bias) })
    : tr("; its logit was left alone");
  return (detail.is_green ? tr("green") : tr("red")) + greenShareText(detail) + raised;
}

/** @param {WatermarkDetail} detail */
function greenShareText(detail) {
  if (detail.green_fraction === null) return "";
  const share = formatPercent(detail.green_fraction);
  return detail.scheme === "selfhash"
    ? tr(", where {share} of the tokens tested was green", { share })
    : tr(", where {share} of the vocabulary was green", { share });
}

/**
 * @param {Run} run
 * @param {Step} step
 */
export function describeToken(run, step) {
  /** @type {WatermarkDetail} */
  const d = step.detail;
  const context = d.context_ids.map((i) => quoteText(tokenLabel(run, i))).join(" ");
  return tr("“{text}”: {colour}{because}; {counts}", {
    text: tokenLabel(run, step.emit[0]),
    colour: colourText(d, stepSummary(run, step)),
    because: context ? tr("; chosen by {context}", { context }) : "",
    counts: countsText(d),
  });
}

/** @param {WatermarkDetail} detail */
function countsText({ scored, fresh, reason }) {
  if (!scored) return tr("not counted: {reason}.", { reason: said(reason) });
  return fresh ? tr("counted.") : tr("counted in z; not in p, as the same draw gave it before.");
}
