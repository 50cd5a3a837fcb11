// View of what a server reported of a step: the seen and the unseen probability, and what both mean.
import { el } from "../shared/dom.mjs";
import { said } from "../shared/server_text.mjs";
import { StepView } from "../shared/step_view.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { formatWholePercent, toCssLength } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import {
  CHOICE_TEXT,
  DISTRIBUTION_TEXT,
  drawErrorText,
  entropyText,
  OWN_DISTRIBUTION_TEXT,
  SERVER_TITLES,
  unseenText,
} from "./words.mjs";

/**
 * A bar of the probability that was reported, the rest of it hatched.
 * @drawing
 * @param {number} seen
 */
const createBar = (seen) =>
  el(
    "div",
    {
      class: "sv-bar",
      role: "img",
      "aria-label": tr("{seen} seen, {unseen} unseen", {
        seen: formatWholePercent(seen),
        unseen: formatWholePercent(1 - seen),
      }),
    },
    el("b", { style: { width: toCssLength(seen) } }, formatWholePercent(seen)),
    el("i", {}),
  );

/**
 * @param {Run} run
 * @param {Step} step
 */
function createReport(run, step) {
  const { seen, entropy_low: low, entropy_high: high } = run.shown[step.index].served;
  const sentences = [
    unseenText(seen),
    entropyText(low, high),
    step.detail.draw ? OWN_DISTRIBUTION_TEXT : DISTRIBUTION_TEXT[step.detail.distribution],
    CHOICE_TEXT[run.served?.choice ?? "unknown"],
    ...(step.detail.draw ? [drawErrorText(step.detail.draw_error)] : []),
  ];
  return [
    createBar(seen),
    ...sentences.map((sentence) => el("p", { class: "sv-line" }, renderTerms(sentence))),
  ];
}

/** @param {Run} run */
function createNotes(run) {
  const server = SERVER_TITLES[run.served?.server ?? "unknown"];
  const head = run.served?.measured
    ? tr("Read from an answer of {server}.", { server })
    : tr("Read from an answer of {server}, by its documentation only: not measured.", { server });
  const notes = [head, ...(run.notes ?? []).map(said)];
  return el(
    "ul",
    { class: "sv-notes" },
    notes.map((note) => el("li", {}, note)),
  );
}

/** @type {ViewSpec} */
export const served = {
  title: tr("What the server reported"),
  empty: tr("What the server reported of a step, and what it did not."),
  mount(root) {
    const body = el("div", { class: "sv-report" });
    root.append(body);
    return new StepView((run, step) =>
      body.replaceChildren(...createReport(run, step), createNotes(run)),
    );
  },
};
