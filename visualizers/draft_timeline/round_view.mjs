// View of the round that wrote the selected word: every guess with the chance that both models gave it,
// and how many words every pass wrote.
import { el } from "../shared/dom.mjs";
import { createPairBars } from "../shared/pair_bars.mjs";
import { findSelectedOffset } from "../shared/record.mjs";
import { StepView } from "../shared/step_view.mjs";
import { formatCount, formatWholePercent, pluralText, tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { createRoundTree } from "./round_tree.mjs";
import { roundSummary, VERDICTS } from "./words.mjs";

/** @import { PairRow } from "../shared/pair_bars.mjs" */

const MAX_ROWS = 8;

/**
 * @param {Run} run
 * @param {DraftToken} guess
 * @param {boolean} on
 * @param {() => void} select shows the guess where it was kept: only then it is a word of the text
 * @returns {PairRow}
 */
function guessRow(run, { token_id: id, p, q, status }, on, select) {
  const [sign, verdict] = VERDICTS[status];
  const values = { verdict, word: tokenLabel(run, id), p: formatWholePercent(p) };
  const said =
    q === null
      ? tr("“{word}”: {verdict}; main model {p}", values)
      : tr("“{word}”: {verdict}; main model {p}, draft {q}", {
          ...values,
          q: formatWholePercent(q),
        });
  const word = tokenLabel(run, id).replace(/^·/, "");
  const go = status === "accepted" ? select : null;
  return { word, values: q === null ? [p] : [p, q], sign, said, on, kind: `dt-${status}`, go };
}

/**
 * What guessed, in words.
 * @param {Run} run
 * @param {DraftDetail} detail
 */
function drafterName(run, { drafter, exit_layer: layer }) {
  if (drafter === "mtp") return tr("extra heads");
  return layer
    ? tr("layer {n} of {total}", { n: layer, total: run.model.layers })
    : tr("draft model");
}

/**
 * The guesses of a round, or a sentence where there are none.
 * @param {Run} run
 * @param {Step} step
 * @param {Context["select"]} select
 */
function createGuesses(run, step, select) {
  /** @type {DraftDetail} */
  const detail = step.detail;
  const at = findSelectedOffset(run, step);
  const rows = detail.tokens.map((guess, i) =>
    guessRow(run, guess, i === at && guess.status === "accepted", () =>
      select(step.index, undefined, i),
    ),
  );
  if (!rows.length) return el("p", { class: "dp-note" }, tr("Nothing was guessed in this pass."));
  const names = [tr("main model")];
  if (detail.tokens.some(({ q }) => q !== null)) names.push(drafterName(run, detail));
  const [seen, more] = [rows.slice(0, MAX_ROWS), rows.slice(MAX_ROWS)];
  const bars = createPairBars(seen, names, 1);
  if (!more.length) return bars;
  const summary = pluralText(more.length, tr("1 more guess"), tr("{n} more guesses"));
  const rest = createPairBars(more, [], 1);
  return el("div", {}, bars, el("details", { class: "dp-more" }, el("summary", {}, summary), rest));
}

/**
 * @param {number} tokens
 * @param {number} passes
 */
function paceText(tokens, passes) {
  const words = formatCount(tokens);
  return pluralText(
    passes,
    tr("{words} words in 1 pass", { words }),
    tr("{words} words in {n} passes", { words }),
  );
}

/** @param {Run} run */
function headline(run) {
  const { tokens, rounds } = roundSummary(run, run.steps[run.steps.length - 1]).figures;
  return paceText(tokens, rounds);
}

/**
 * What drafts in a line needed for the same prompt, if the run compared a tree with them.
 * @param {Run} run
 */
function createLines(run) {
  /** @type {DraftReport["lines"]} */
  const lines = run.steps[run.steps.length - 1].detail.report?.lines ?? [];
  return lines.map(({ length, tokens, passes }) =>
    el(
      "p",
      { class: "dp-note" },
      pluralText(
        length,
        tr("With 1 guess at a time: {pace}.", { pace: paceText(tokens, passes) }),
        tr("With {n} guesses in a line: {pace}.", { pace: paceText(tokens, passes) }),
      ),
    ),
  );
}

/**
 * One part for each pass, as wide as it wrote words.
 * @param {Run} run
 * @param {Step} selected
 * @param {(index: number) => void} choose
 */
function createPasses(run, selected, choose) {
  const counts = run.steps.map(({ emit }) => emit.length);
  return el(
    "div",
    {
      class: "dt-passes",
      role: "img",
      "aria-label": tr("Words of every pass: {counts}", { counts: counts.join(", ") }),
    },
    counts.map((count, i) =>
      el(
        "span",
        {
          class: i === selected.index ? "on" : null,
          style: { flexGrow: count },
          title: tr("Pass {n}", { n: i + 1 }),
          onclick: () => choose(i),
        },
        String(count),
      ),
    ),
  );
}

/** @type {ViewSpec} */
export const draftRound = {
  title: tr("The guesses of this pass"),
  heading: false,
  picture: true,
  recorded: true,
  mount(root, ctx) {
    const box = el("div", { class: "dt-pass" });
    root.append(box);
    return new StepView(
      (run, step) => {
        if (step.detail?.kind !== "draft") return box.replaceChildren();
        const tree = step.detail.tree.length > 0;
        box.classList.toggle("dt-wide", tree);
        box.replaceChildren(
          tree ? createRoundTree(run, step) : createGuesses(run, step, ctx.select),
          el(
            "div",
            {},
            el("p", { class: "dt-headline" }, headline(run)),
            createPasses(run, step, (index) => ctx.select(index)),
            createLines(run),
          ),
        );
      },
      (run) => [run.steps.length],
    );
  },
};
