// Walking through the steps of a run, and what it cost.
import { button, el, fact } from "../shared/dom.mjs";
import { milliseconds, percent } from "../shared/text.mjs";
import { saveTrace } from "./download.mjs";

/**
 * The costs of a run that has ended are its metrics, before that those of its last step.
 * @param {Run} run
 */
function costsOf(run) {
  const { timing, metrics } = run;
  const ended = metrics?.new_tokens !== undefined;
  const costs = ended
    ? { tokens: metrics.new_tokens, ...metrics }
    : (run.shown.at(-1)?.text ?? { tokens: 0, forward_passes: 0 });
  const seconds = ended ? timing.total_s : (run.steps.at(-1)?.elapsed_s ?? 0);
  const facts = [
    fact("tokens", costs.tokens),
    fact("forward passes", costs.forward_passes),
    fact("seconds", seconds.toFixed(2)),
    fact("tokens/s", costs.tokens_per_s?.toFixed(1) ?? "–"),
  ];
  if (timing?.first_token_s)
    facts.push(fact("time to first token", milliseconds(timing.first_token_s)));
  if (metrics?.perplexity)
    facts.push(
      fact("perplexity", metrics.perplexity.toFixed(2)),
      fact("repeated 3-grams", percent(metrics.rep_3)),
    );
  return facts;
}

/**
 * Something that a page offers besides saving the trace.
 * @typedef {object} Offer
 * @property {HTMLElement} node
 * @property {(run: Run) => void} update
 */

/**
 * @param {() => Offer[]} [offers]
 * @returns {ViewSpec}
 */
export const scrubWith = (offers = () => []) => ({
  title: "Player",
  heading: false,
  empty: "After a run: walk through its steps, save it, share it.",
  /** @param {Context} ctx */
  mount(root, ctx) {
    let current = null;
    const by = (distance) => () => ctx.select(current.selected + distance);
    const range = el("input", {
      type: "range",
      min: 0,
      value: 0,
      "aria-label": "Step",
      oninput: () => ctx.select(+range.value),
    });
    const label = el("output", {});
    const save = button("Download trace", () => saveTrace(current));
    const more = offers();
    const costs = el("div", { class: "dp-costs" });
    root.append(
      el(
        "div",
        { class: "dp-scrub" },
        button("←", by(-1), { "aria-label": "Previous step" }),
        range,
        button("→", by(1), { "aria-label": "Next step" }),
        label,
      ),
      el(
        "div",
        { class: "dp-under" },
        costs,
        el(
          "div",
          { class: "dp-row" },
          save,
          more.map((offer) => offer.node),
          button("Full screen", () => ctx.present(), { title: "Text, picture and step alone" }),
        ),
      ),
    );
    return {
      update(run) {
        current = run;
        range.max = String(Math.max(0, run.steps.length - 1));
        save.toggleAttribute("disabled", run.status === "running");
        for (const offer of more) offer.update(run);
        costs.replaceChildren(...costsOf(run));
      },
      select(run, index) {
        range.value = String(index);
        label.textContent = `step ${index + 1} of ${run.steps.length}`;
      },
      clear() {},
    };
  },
});
