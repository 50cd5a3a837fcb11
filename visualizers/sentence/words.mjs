// The sentences by kind. A name in braces is a value: words are drawn in the face of the model's words.
import { tr } from "../shared/tr.mjs";

/** @import { SentenceSummary } from "../shared/summaries.d.ts" */

/** @type {Record<string, string>} */
const SENTENCES = {
  plain: tr("{word} was chosen here."),
  only: tr("Only {word} was left: your filters had removed every other word."),
  only_wanted: tr("{filter} left only {word}; the model wanted {other}, with {other_share}."),
  favourite: tr("{word} was the likeliest word here, so greedy took it."),
  close: tr("{word} was just ahead of {other}, {share} to {other_share}, so greedy took it."),
  reordered: tr("The model preferred {other}, but with your settings {word} came first."),
  removed: tr("The model preferred {other}, but {filter} removed it, so {word} came first."),
  drawn: tr("The draw fell on {word} with {share}; {other} was likelier with {other_share}."),
  drawn_favourite: tr("The draw fell on the favourite, {word}, with {share}."),
  drawn_rare: tr(
    "The draw fell on {word}, though its chance was only {share}; {other} had {other_share}.",
  ),
  drawn_without: tr(
    "The model preferred {other}, but {filter} removed it; the draw fell on {word}.",
  ),
  unlike: tr("{word} is the likeliest word and not too much like earlier ones, so it stays."),
  alike: tr("{other} was likelier but too much like earlier words, so {word} was taken."),
  layers_same: tr("{word} was the last layer's favourite, and layer {layer} did not change that."),
  layers_grown: tr(
    "The last layer preferred {other}, but {word} had gained more since layer {layer}.",
  ),
  layers_other: tr(
    "The last layer preferred {other}; compared with layer {layer}, {word} came first.",
  ),
  marked: tr(
    "{hits} of {count} words are on the secret list. Chance alone gives about {expected}.",
  ),
  bits: tr("{hits} of {count} secret bits are ones. Chance alone gives about {expected}."),
  served_best: tr("{word} was the likeliest word here, with {share}."),
  served_other: tr(
    "The server chose {word} with {share}; {other} was likelier with {other_share}.",
  ),
  served_only: tr("The server chose {word}, with {share}, and listed no other word."),
  served_part: tr(
    "{word} was chosen here. The server gave the chance of its last part only: {share}.",
  ),
  filled: tr(
    "This pass wrote {count} words at once, from {word} with {share} to {other} with {other_share}.",
  ),
  filled_one: tr("This pass wrote {word}, with {share}."),
  filled_none: tr("This pass wrote nothing."),
  method_same: tr("Your method chose {word}, the model's favourite too."),
  method_other: tr("Your method chose {word}; the model's favourite was {other}."),
  method_unseen: tr("Your method wrote {word}; what decided it was not seen."),
  method_nothing: tr("Your method wrote nothing here that stayed in the text."),
  beam_leads: tr("The text with {word} leads so far."),
  beam_best: tr("The text with {word} was the likeliest so far, and it won."),
  beam_start: tr("{other} was the likelier start, but the text that begins with {word} won."),
  beam_later: tr("{other} made a likelier text here, but the one with {word} won."),
  beam_overtook: tr("Another text was likelier here, but this one with {word} won."),
  beam_undrawn: tr("The draw kept {word}; the likelier {other} was not drawn."),
  beam_avoided: tr("Group {before} had already chosen {other}, so group {group} put {word} first."),
};

/**
 * Outcome of a beam search candidate that is not in the leading text -> sentence.
 * @type {Record<string, string>}
 */
const FATES = {
  kept: tr("The text with {word} was kept for the next step."),
  pruned: tr("The text with {word} was dropped: others scored higher here."),
  finished: tr("The text with {word} ended here and counts as finished."),
  finished_worse: tr("The text with {word} ended here, but finished ones scored higher."),
  blocked: tr("The text with {word} ended here without counting."),
};

// Who guessed -> one guess and several.
/** @type {Record<string, [string, string]>} */
const GUESSES = {
  assistant: [tr("The draft model guessed 1 word."), tr("The draft model guessed {count} words.")],
  prompt_lookup: [
    tr("It copied 1 word from the text before."),
    tr("It copied {count} words from the text before."),
  ],
  early_exit: [tr("Layer {layer} guessed 1 word."), tr("Layer {layer} guessed {count} words.")],
  mtp: [tr("The extra heads guessed 1 word."), tr("The extra heads guessed {count} words.")],
  tree: [
    tr("The draft model guessed 1 word."),
    tr("The draft model guessed {count} words, as a tree."),
  ],
};

// Who guessed -> a guess that was kept.
/** @type {Record<string, string>} */
const KEPT_GUESSES = {
  assistant: tr("The draft model guessed {word}, and the main model kept it."),
  prompt_lookup: tr("{word} was copied from the text before, and the main model kept it."),
  early_exit: tr("Layer {layer} guessed {word}, and the main model kept it."),
  mtp: tr("The extra heads guessed {word}, and the main model kept it."),
};

/** @type {Record<string, string>} */
const ENDS = {
  own: tr("The main model kept {kept}, then wrote {word} itself."),
  none: tr("The main model kept none and wrote {word} itself."),
  bonus: tr("The main model kept all and added {word}."),
  ended: tr("The main model kept {kept}, and the text ended there."),
  branch: tr("The main model followed {kept} to the end of a branch and added {word}."),
};

/**
 * The template of a step's sentence.
 * @param {SentenceSummary} found
 */
export function sentenceTemplate({ kind, drafter = "", count = 0, end = "" }) {
  if (kind === "no_guess")
    return drafter === "prompt_lookup"
      ? tr("Nothing could be copied here, so the main model wrote {word} itself.")
      : tr("Nothing was guessed here, so the main model wrote {word} itself.");
  if (kind !== "round" && kind !== "tree") return SENTENCES[kind] ?? SENTENCES.plain;
  const [one, many] = GUESSES[kind === "tree" ? kind : drafter] ?? GUESSES.assistant;
  return `${count === 1 ? one : many} ${ENDS[end]}`;
}

/**
 * The template of a drafted word that is in the text.
 * @param {SentenceSummary} found
 */
export const keptTemplate = ({ drafter = "" }) => KEPT_GUESSES[drafter] ?? KEPT_GUESSES.assistant;

/** @param {string} fate */
export const fateTemplate = (fate) => FATES[fate] ?? SENTENCES.plain;

/**
 * The template of a step under settings that were not run.
 * @param {Preview} preview
 * @param {number} was token that the run chose
 */
export function previewTemplate({ stale, pending, chosen, first, step }, was) {
  if (stale && pending) return tr("Deciding this step again…");
  if (stale) return tr("Press Run to see this.");
  if (chosen === null) return tr("These are the chances with {setting}.");
  if (chosen === was) return tr("Still {word} at {setting}.");
  return first?.known && first.step === step
    ? tr("{setting} gives {word} instead of {other}.")
    : tr("With the same words before it, {setting} gives {word} instead of {other}.");
}
