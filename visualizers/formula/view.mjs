// View of the formulas that decided a step: in symbols, with the step's numbers, and explained.

import { el } from "../shared/dom.mjs";
import { formulaToMath, token } from "../shared/formula.mjs";
import { StepView } from "../shared/step_view.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { FORMS } from "./forms.mjs";

/** @import { Tree } from "../shared/formula.mjs" */
/** @import { FormulaLine } from "../shared/summaries.d.ts" */

const SERVED_TEXT = tr(
  "The formulas from [logit] to [probability] need the logits of all tokens, and a server's answer has none.",
);
const NO_FORMULA = tr("No formula decided this step.");

// Makes lines focusable while they are too wide, so that they can be scrolled with the keyboard.
const createFocusObserver = () =>
  new ResizeObserver((entries) => {
    for (const { target } of entries)
      if (target.scrollWidth > target.clientWidth) target.setAttribute("tabindex", "0");
      else target.removeAttribute("tabindex");
  });

/**
 * @param {string} kind
 * @param {string} label
 * @param {Tree[]} trees
 */
function createFormulaLine(kind, label, trees) {
  const attrs = { class: `fm-line ${kind}`, role: "group", "aria-label": label };
  return el("div", attrs, trees.map(formulaToMath));
}

/**
 * @param {Run} run
 * @param {FormulaLine} line
 */
function createFilledLine(run, line) {
  const form = FORMS[line.form];
  const x = line.of === undefined || line.of === null ? "x" : token(tokenLabel(run, line.of));
  return createFormulaLine(
    "numbers",
    tr("With this step's numbers"),
    form.draw(line.with ?? {}, x, line.is ?? null, line),
  );
}

/**
 * One formula in symbols, followed by its lines with numbers.
 * @param {Run} run
 * @param {FormulaLine[]} lines
 */
function createSection(run, lines) {
  const [{ form: name }] = lines;
  const form = FORMS[name];
  const filled = lines.filter((line) => line.is !== undefined || line.of !== undefined);
  return el(
    "section",
    { class: "fm-section", "data-form": name },
    el("h4", {}, form.title),
    createFormulaLine("symbols", tr("In general"), form.draw(form.symbols, "x", null, lines[0])),
    filled.map((line) => createFilledLine(run, line)),
    filled.length
      ? null
      : el(
          "p",
          { class: "fm-no-numbers" },
          form.none ?? tr("Its numbers are not part of the record."),
        ),
    el("p", { class: "dp-note" }, renderTerms(form.where)),
  );
}

/**
 * Group consecutive lines with the same form.
 * @param {FormulaLine[]} lines
 */
function groupByForm(lines) {
  /** @type {FormulaLine[][]} */
  const groups = [];
  for (const line of lines) {
    const last = groups.at(-1);
    if (last?.[0].form === line.form) last.push(line);
    else groups.push([line]);
  }
  return groups;
}

/**
 * @param {Run} run
 * @param {Step} step
 */
function createSections(run, step) {
  const lines = run.shown[step.index].formula?.lines ?? [];
  if (step.detail?.kind === "served")
    return [
      ...groupByForm(lines).map((group) => createSection(run, group)),
      el("p", { class: "dp-note" }, renderTerms(SERVED_TEXT)),
    ];
  if (!lines.length) return [el("p", { class: "dp-empty" }, NO_FORMULA)];
  return groupByForm(lines).map((group) => createSection(run, group));
}

/** @type {ViewSpec} */
export const formula = {
  title: tr("Formulas with this step's numbers"),
  recorded: true,
  place: "drawer",
  tab: tr("Formula"),
  empty: tr("The formulas that decide a step, with its numbers filled in."),
  mount(root) {
    const body = el("div", { class: "fm-all" });
    const watch = createFocusObserver();
    root.append(body);
    return new StepView((run, step) => {
      watch.disconnect();
      body.replaceChildren(...createSections(run, step));
      for (const line of body.querySelectorAll(".fm-line")) watch.observe(line);
    });
  },
};
