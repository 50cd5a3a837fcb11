// View of the processors in their order: what each removed, kept and changed.
import { el, table } from "../shared/dom.mjs";
import { titleOf } from "../shared/processors.mjs";
import { Once } from "../shared/step_view.mjs";
import { told } from "../shared/terms.mjs";
import { fixed, percent, piece } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

const NAMED = 3;
const COLUMNS = [
  tr("[processor]"),
  tr("removed here"),
  tr("tokens left"),
  tr("[probability kept|kept]"),
  tr("[entropy], [bit|bits]"),
];

/**
 * Name of a processor, with up to three of the recorded tokens that it removed.
 * @param {Run} run
 * @param {Step} step
 */
function nameOf(run, step, name, count) {
  const gone = step.candidates.filter((c) => c.removed_by === name).slice(0, NAMED);
  const names = gone.map((c) => piece(run, c.token_id)).join(" ");
  const more = gone.length < count ? " …" : "";
  return [titleOf(name), names ? el("small", { class: "dp-gone" }, names + more) : null];
}

/**
 * @param {Run} run
 * @param {Step} step
 */
function rowsOf(run, step) {
  const { entropy_model: own, entropy, removed } = run.shown[step.index].xray;
  const whole = run.model.vocab_size.toLocaleString("en");
  return [
    [tr("the model's own"), "", whole, "100 %", fixed(own, 2)],
    ...step.stages.map(({ name, kept, kept_mass: mass }, i) => [
      el("span", {}, nameOf(run, step, name, removed[i])),
      removed[i] ? tr("{n} removed", { n: removed[i].toLocaleString("en") }) : tr("none"),
      kept.toLocaleString("en"),
      percent(mass),
      fixed(entropy[i], 2),
    ]),
  ];
}

const NONE = tr("No processor was active at this step: the model's own distribution decided.");
const UNSEEN = tr(
  "No list of processors was seen at work at this step; what else the method did with the scores cannot be seen.",
);
const ABOUT = tr(
  "Kept: the probability that the tokens left had just before the processor ran. Entropy: after it.",
);

const shownOf = (run, step) =>
  step.stages.length
    ? [table(COLUMNS.map(told), rowsOf(run, step)), el("p", { class: "dp-note" }, ABOUT)]
    : [el("p", { class: "dp-empty" }, step.detail?.kind === "forward" ? UNSEEN : NONE)];

/** @type {ViewSpec} */
export const xray = {
  title: tr("Processor X-ray"),
  place: "answers",
  tab: tr("X-ray"),
  empty: tr("What every processor removed, in the order they ran."),
  mount(root) {
    const body = el("div", {});
    root.append(body);
    return new Once((run, step) => body.replaceChildren(...shownOf(run, step)));
  },
};
