// The legend of the text: what the lines under its words mean.
import { el } from "../shared/dom.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { tr } from "../shared/tr.mjs";

const SURPRISE_LEVELS = [
  ["s1", tr("some"), tr("1–3 bits")],
  ["s2", tr("strong"), tr("3–6 bits")],
  ["s3", tr("extreme"), tr("over 6 bits")],
];

/** @param {number | null} bits */
export const surpriseClass = (bits) =>
  bits === null || bits < 1 ? "" : bits < 3 ? " s1" : bits < 6 ? " s2" : " s3";

export const createSurpriseLegend = () => [
  el("span", {}, renderTerms(tr("[surprise|Surprise]"))),
  ...SURPRISE_LEVELS.map(([shade, words, bits]) =>
    el("span", { class: `dp-tok ${shade}`, title: bits }, words),
  ),
];
