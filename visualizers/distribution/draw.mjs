// How chance picked the token: a race in which likely tokens run faster.
import { el, table } from "../shared/dom.mjs";
import { fixed, percent, piece, precise } from "../shared/text.mjs";
import { Once } from "./once.mjs";

const COLUMNS = ["token", "probability p as used", "noise e", "arrival e ÷ p"];
const ABOUT =
  "Every token draws exponential noise e from the run's seed; the smallest e ÷ p wins. Over many draws a token wins exactly in proportion to p, its probability after the processors.";

// A watermarked step keeps its draw beside its marks.
const racersOf = (/** @type {Step} */ { detail }) =>
  (detail?.kind === "watermark" ? detail.draw : detail)?.racers || [];

/**
 * @param {Run} run
 * @param {Step} step
 */
function shownOf(run, step) {
  const racers = racersOf(step);
  if (!racers.length) return [el("p", { class: "dp-empty" }, "Nothing was drawn at this step.")];
  const rows = racers.map((r, i) => [
    (i ? "" : "▸ ") + piece(run, r.token_id),
    percent(r.probability),
    fixed(r.noise),
    precise(r.arrival, 3),
  ]);
  return [table(COLUMNS, rows), el("p", { class: "dp-note" }, ABOUT)];
}

/** @type {ViewSpec} */
export const draw = {
  title: "The draw",
  place: "answers",
  tab: "Draw",
  empty: "How chance picked the token: a race in which likely tokens run faster.",
  mount(root) {
    const body = el("div", {});
    root.append(body);
    return new Once((run, step) => body.replaceChildren(...shownOf(run, step)));
  },
};
