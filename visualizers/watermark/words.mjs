// A token as the detector sees it, in words.
import { piece } from "../shared/text.mjs";

/** @param {Step} step */
export const isMarked = (step) => step.detail?.kind === "watermark";

/**
 * What the summary shows of a step.
 * @param {Run} run
 * @param {Step} step
 */
export const shownOf = (run, step) => run.shown[step.index].watermark;

/**
 * A share in words.
 * @drawing
 */
export const shareOf = (detail) => `${(100 * detail.green_fraction).toFixed(1)} %`;

export const bitsOf = ({ hits, flips }) => `${hits} of ${flips}`;

function colourOf(detail, shown) {
  if (detail.g_values.length) return `${bitsOf(shown)} keyed bits are ones`;
  if (detail.is_green === null) return "no list was chosen";
  const among = detail.scheme === "selfhash" ? "the tokens tested" : "the vocabulary";
  const share =
    detail.green_fraction === null ? "" : `, where ${shareOf(detail)} of ${among} was green`;
  const raised = detail.bias
    ? `; its logit was raised by ${detail.bias}`
    : "; its logit was left alone";
  return (detail.is_green ? "green" : "red") + share + raised;
}

/**
 * @param {Run} run
 * @param {Step} step
 */
export function describe(run, step) {
  const d = step.detail;
  const context = d.context_ids.map((i) => `“${piece(run, i)}”`).join(" ");
  const because = context ? `; chosen by ${context}` : "";
  const fresh = d.fresh ? "." : " in z; not in p, as the same draw gave it before.";
  const counted = d.scored ? `counted${fresh}` : `not counted: ${d.reason}.`;
  return `“${piece(run, step.emit[0])}”: ${colourOf(d, shownOf(run, step))}${because}; ${counted}`;
}
