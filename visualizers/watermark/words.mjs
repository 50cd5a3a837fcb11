// Texts on a token as the detector sees it.
import { said } from "../shared/server_text.mjs";
import { piece } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @param {Step} step */
export const isMarked = (step) => step.detail?.kind === "watermark";

/**
 * The summary of a step.
 * @param {Run} run
 * @param {Step} step
 */
export const shownOf = (run, step) => run.shown[step.index].watermark;

/**
 * Format the green share of a step as percent.
 * @drawing
 */
export const shareOf = (detail) => `${(100 * detail.green_fraction).toFixed(1)} %`;

export const bitsOf = ({ hits, flips }) => tr("{n} of {total}", { n: hits, total: flips });

function colourOf(detail, shown) {
  if (detail.g_values.length) return tr("{bits} keyed bits are ones", { bits: bitsOf(shown) });
  if (detail.is_green === null) return tr("no list was chosen");
  const raised = detail.bias
    ? tr("; its logit was raised by {bias}", { bias: detail.bias })
    : tr("; its logit was left alone");
  return (detail.is_green ? tr("green") : tr("red")) + amongOf(detail) + raised;
}

function amongOf(detail) {
  if (detail.green_fraction === null) return "";
  const share = shareOf(detail);
  return detail.scheme === "selfhash"
    ? tr(", where {share} of the tokens tested was green", { share })
    : tr(", where {share} of the vocabulary was green", { share });
}

/**
 * @param {Run} run
 * @param {Step} step
 */
export function describe(run, step) {
  const d = step.detail;
  const context = d.context_ids.map((i) => tr("“{text}”", { text: piece(run, i) })).join(" ");
  return tr("“{text}”: {colour}{because}; {counts}", {
    text: piece(run, step.emit[0]),
    colour: colourOf(d, shownOf(run, step)),
    because: context ? tr("; chosen by {context}", { context }) : "",
    counts: countsOf(d),
  });
}

function countsOf({ scored, fresh, reason }) {
  if (!scored) return tr("not counted: {reason}.", { reason: said(reason) });
  return fresh ? tr("counted.") : tr("counted in z; not in p, as the same draw gave it before.");
}
