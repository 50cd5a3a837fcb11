// View of one sentence: why the selected step chose its word, or what other settings would choose.
import { el } from "../shared/dom.mjs";
import { processorTitle } from "../shared/processors.mjs";
import {
  findDecidedIndex,
  findDecidedToken,
  findSelectedNode,
  findSelectedOffset,
  findSelectedToken,
} from "../shared/record.mjs";
import { StepView } from "../shared/step_view.mjs";
import { formatPercent, formatWholePercent, quoteText, wordLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { fateTemplate, keptTemplate, previewTemplate, sentenceTemplate } from "./words.mjs";

/** @import { SentenceSummary } from "../shared/summaries.d.ts" */

/** @typedef {Record<string, string | number | HTMLElement | undefined>} Values */

/**
 * A token in a sentence; one without a letter is quoted.
 * @param {Run} run
 * @param {number | null | undefined} id
 */
function createWord(run, id) {
  if (id === null || id === undefined) return "";
  const label = wordLabel(run, id);
  const text = /[\p{L}\p{N}]/u.test(label) ? label : quoteText(label);
  return el("em", { class: "se-word" }, text);
}

/** @param {Values[string]} value */
const toContent = (value) => (value instanceof Node ? value : String(value ?? ""));

/**
 * Fill a template with texts and elements.
 * @param {string} template
 * @param {Values} values
 */
const fillSentence = (template, values) =>
  template
    .split(/\{(\w+)\}/)
    .map((part, i) => (i % 2 ? toContent(values[part]) : part))
    .filter((part) => part !== "");

/**
 * Both probabilities of a sentence, with more digits where two that differ would look equal.
 * @param {SentenceSummary} found
 */
function formatShares({ share, other_share }) {
  const shown = (/** @type {(p: number) => string} */ format) =>
    [share, other_share].map((p) => (p === undefined ? "" : format(p)));
  const whole = shown(formatWholePercent);
  const alike = whole[0] === whole[1] && share !== other_share;
  const [own, other] = alike ? shown(formatPercent) : whole;
  return { share: own, other_share: other };
}

/**
 * Values of a sentence as they are drawn.
 * @param {Run} run
 * @param {SentenceSummary} found
 * @returns {Values}
 */
const drawnValues = (run, found) => ({
  ...{ layer: found.layer ?? "", count: found.count, kept: found.kept, hits: found.hits },
  ...{ expected: found.expected, group: found.group, before: found.before },
  word: createWord(run, found.word),
  other: createWord(run, found.other),
  ...formatShares(found),
  filter: found.filter ? processorTitle(found.filter) : "",
});

/**
 * The summary that has the sentence of a step: its own, that of the text which won, or that of the
 * whole text.
 * @param {Run} run
 * @param {Step} step
 */
function findSentence(run, step) {
  const own = run.shown[step.index].sentence;
  const last = run.steps.findLast(({ sequence }) => sequence === step.sequence) ?? step;
  const whole = run.shown[last.index].sentence;
  if (whole.kind === "marked" || whole.kind === "bits") return whole;
  return whole.path?.[step.index] ?? own;
}

/**
 * @param {Run} run
 * @param {Step} step
 */
function recordedSentence(run, step) {
  const found = findSentence(run, step);
  const node = findSelectedNode(run, step)?.node;
  if (node && node.node_id !== found.node)
    return fillSentence(fateTemplate(node.fate), { word: createWord(run, node.token_id) });
  const word = findSelectedToken(run, step);
  if (found.kind === "round" && findSelectedOffset(run, step) !== findDecidedIndex(step))
    return fillSentence(keptTemplate(found), drawnValues(run, { ...found, word }));
  return fillSentence(sentenceTemplate(found), drawnValues(run, found));
}

/**
 * @param {Run} run
 * @param {Step} step
 * @param {Preview} preview
 */
function previewSentence(run, step, preview) {
  const was = findDecidedToken(step);
  return fillSentence(previewTemplate(preview, was), {
    word: createWord(run, preview.chosen),
    other: createWord(run, was),
    setting: preview.setting,
  });
}

/** @type {ViewSpec} */
export const sentence = {
  title: tr("Why this word"),
  heading: false,
  mount(root, ctx) {
    const text = el("p", { class: "se-text" });
    root.append(text);
    return new StepView(
      (run, step) => {
        const preview = ctx.preview?.step === step.index ? ctx.preview : null;
        const parts = preview ? previewSentence(run, step, preview) : recordedSentence(run, step);
        text.replaceChildren(...parts);
        text.classList.toggle("stale", preview?.stale ?? false);
      },
      (run, step) => [ctx.preview, findSelectedNode(run, step)?.node.node_id, run.steps.length],
    );
  },
};
