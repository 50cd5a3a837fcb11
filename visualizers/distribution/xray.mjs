// What every processor removed, in the order they ran.
import { el, table } from "../shared/dom.mjs";
import { percent, piece } from "../shared/text.mjs";
import { Once } from "./once.mjs";

const NAMED = 4;
const COLUMNS = ["processor", "tokens left", "probability kept", "entropy, bits", "removed here"];

/**
 * @param {Run} run
 * @param {Step} step
 */
function rowOf(run, step, { name, kept, kept_mass: mass }, entropy) {
  const gone = step.candidates.filter((c) => c.removed_by === name).slice(0, NAMED);
  return [
    name,
    kept.toLocaleString("en"),
    percent(mass),
    entropy.toFixed(2),
    gone.map((c) => piece(run, c.token_id)).join("  ") || "–",
  ];
}

const NONE = "No processor was active at this step: the model's own distribution decided.";

const shownOf = (run, step) =>
  step.stages.length
    ? table(
        COLUMNS,
        step.stages.map((stage, i) =>
          rowOf(run, step, stage, run.shown[step.index].xray.entropy[i]),
        ),
      )
    : el("p", { class: "dp-empty" }, NONE);

/** @type {ViewSpec} */
export const xray = {
  title: "Processor X-ray",
  place: "answers",
  tab: "X-ray",
  empty: "What every processor removed, in the order they ran.",
  mount(root) {
    const body = el("div", {});
    root.append(body);
    return new Once((run, step) => body.replaceChildren(shownOf(run, step)));
  },
};
