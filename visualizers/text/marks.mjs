// What a strategy marks on the words of a text: who wrote a word, or whether it is on a watermark's list.
import { el } from "../shared/dom.mjs";
import { makeVisible, tokenText } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { createSurpriseLegend, surpriseClass } from "./legend.mjs";

/**
 * @typedef {object} Mark
 * @property {string} classes
 * @property {string} [said] for the label of the word
 * @property {HTMLElement} [before] shown before the word
 */

/** A guess that the main model refused. */
const createRefused = (/** @type {string} */ text) =>
  el("s", { class: "tx-refused", title: tr("refused") }, makeVisible(text).trim());

/** @type {Record<string, (run: Run, token: Token, step: Step, at: number) => Mark>} */
const MARKS = {
  draft(run, _token, { keep, emit, detail }, at) {
    const offset = at - keep;
    /** @type {DraftToken | undefined} */
    const guess = detail.tokens[offset];
    const end = offset === emit.length - 1 ? " tx-end" : "";
    if (guess?.status === "accepted")
      return { classes: ` tx-kept${end}`, said: tr("guessed and kept") };
    const refused = guess?.status === "rejected" ? guess : null;
    return {
      classes: ` tx-own${end}`,
      said: tr("by the main model"),
      ...(refused ? { before: createRefused(tokenText(run, refused.token_id)) } : {}),
    };
  },
  fill(_run, token) {
    const pass = token.step + 1;
    return { classes: "", said: tr("written in pass {pass}", { pass }) };
  },
  watermark(_run, token, { detail }) {
    if (detail.g_values.length) return { classes: surpriseClass(token.bits) };
    if (!detail.scored) return { classes: "" };
    return detail.is_green
      ? { classes: " tx-on", said: tr("on the list") }
      : { classes: " tx-off", said: tr("off the list") };
  },
};

/**
 * The mark of a word at a place of a text. Without one of its strategy, it is that of its surprise.
 * @param {Run} run
 * @param {Token} token
 * @param {number} at
 * @returns {Mark}
 */
export function findMark(run, token, at) {
  const step = run.steps[token.step];
  const mark = MARKS[step?.detail?.kind];
  return mark ? mark(run, token, step, at) : { classes: surpriseClass(token.bits) };
}

/** @param {string} kind */
const createSample = (kind, words = "") => el("span", { class: `dp-tok ${kind}` }, words);

/**
 * The legend of the marks in a text.
 * @param {Run} run
 */
export function createMarkLegend(run) {
  const detail = run.steps[0]?.detail;
  if (detail?.kind === "draft")
    return [
      createSample("tx-kept", tr("kept")),
      el("s", { class: "tx-refused" }, tr("refused")),
      createSample("tx-own", tr("by the main model")),
    ];
  if (detail?.kind === "watermark" && detail.scheme !== "synthid")
    return [
      createSample("tx-on", `● ${tr("on the list")}`),
      createSample("tx-off", `○ ${tr("off the list")}`),
    ];
  if (detail?.kind === "fill") return [];
  const arcs = el("span", {}, tr("arc: the most alike earlier word"));
  return detail?.kind === "contrastive"
    ? [arcs, ...createSurpriseLegend()]
    : createSurpriseLegend();
}
