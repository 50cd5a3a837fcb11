// Walking through the steps of a run, and what it cost.
import { button, el, fact } from "../../visualizers/shared/dom.mjs";
import { percent } from "../../visualizers/shared/text.mjs";
import { saveTrace } from "./download.mjs";

/** @param {Run} run */
function costsOf(run) {
  const tokens = run.tokens.reduce((n, list) => n + list.length, 0);
  const forwards = run.steps.reduce((n, s) => n + s.forward_passes, 0);
  const { timing, metrics } = run;
  const sofar = run.steps.length ? run.steps.at(-1).elapsed_s : 0;
  const seconds = timing && run.status !== "running" ? timing.total_s : sofar;
  const facts = [
    fact("tokens", tokens),
    fact("forward passes", forwards),
    fact("seconds", seconds.toFixed(2)),
    fact("tokens/s", seconds ? (tokens / seconds).toFixed(1) : "–"),
  ];
  if (timing?.first_token_s)
    facts.push(fact("time to first token", `${(1000 * timing.first_token_s).toFixed(0)} ms`));
  if (metrics?.perplexity)
    facts.push(
      fact("perplexity", metrics.perplexity.toFixed(2)),
      fact("repeated 3-grams", percent(metrics.rep_3)),
    );
  return facts;
}

async function copyLink(event) {
  const copy = event.currentTarget;
  await navigator.clipboard.writeText(location.href);
  copy.textContent = "Link copied";
  setTimeout(() => {
    copy.textContent = "Copy link";
  }, 1500);
}

/** @type {ViewSpec} */
export const scrub = {
  title: "Step",
  heading: false,
  wide: true,
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
    const copy = button("Copy link", copyLink);
    const costs = el("div", { class: "dp-costs", style: { marginTop: "10px" } });
    root.append(
      el(
        "div",
        { class: "dp-scrub" },
        button("←", by(-1), { "aria-label": "Previous step" }),
        range,
        button("→", by(1), { "aria-label": "Next step" }),
        label,
      ),
      costs,
      el("div", { class: "dp-row", style: { marginTop: "10px" } }, save, copy),
    );
    return {
      update(run) {
        current = run;
        range.max = String(Math.max(0, run.steps.length - 1));
        save.toggleAttribute("disabled", run.status === "running");
        copy.toggleAttribute("disabled", !!run.parent);
        copy.title = run.parent
          ? "A link holds a prompt, not a branch: download its trace instead"
          : "";
        costs.replaceChildren(...costsOf(run));
      },
      select(run, index) {
        range.value = String(index);
        label.textContent = `step ${index + 1} of ${run.steps.length}`;
      },
      clear() {},
    };
  },
};
