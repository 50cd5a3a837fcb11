// The candidates of one step: probabilities raw against processed.
import { el } from "../shared/dom.mjs";
import { lengthOf, percent, piece } from "../shared/text.mjs";
import { Once } from "./once.mjs";

// The name of a candidate; where a run can be continued it is the button that does so.
function labelOf(name, on, go) {
  const chosen = on ? " on" : "";
  if (!go) return el("span", { class: `t${chosen}`, title: name }, name);
  const title = `Continue from here with ${name}`;
  const attrs = { type: "button", class: `t fm-pick${chosen}`, title, "aria-label": title };
  return el("button", { ...attrs, onclick: go }, name);
}

function cellsOf({ name, raw, processed, removed, on, go }) {
  const filled = { width: lengthOf(removed ? raw : processed) };
  return [
    labelOf(name, on, go),
    el(
      "span",
      { class: `b${removed ? " gone" : ""}` },
      el("i", { style: filled }),
      el("u", { style: { width: lengthOf(raw) } }),
    ),
    el("span", { class: "n" }, percent(removed ? 0 : processed)),
    el("span", { class: "r" }, removed ? `removed by ${removed}` : ""),
  ];
}

// What the candidates leave of the probability.
const restOf = ({ rest_raw, rest_processed }) => ({
  name: "everything else",
  raw: rest_raw,
  processed: rest_processed,
  removed: null,
  on: false,
  go: null,
});

/**
 * @param {Run} run
 * @param {Step} step
 */
function noteOf(run, step, { entropy }) {
  const several =
    step.emit.length > 1
      ? `This step wrote ${step.emit.length} tokens; these are the candidates of the last. `
      : "";
  const size = run.model.vocab_size.toLocaleString("en");
  return `${several}Filled: probability after the processors. Outline: the model's own. Entropy ${entropy.toFixed(2)} bits over the whole vocabulary of ${size}.`;
}

/**
 * @param {Run} run
 * @param {Step} step
 * @param {Context} ctx
 */
function paint(run, step, ctx, bars, note) {
  const forks = ctx.fork && !run.model.is_encoder_decoder && step.detail?.kind !== "beam";
  const shown = run.shown[step.index].candidates;
  const rows = step.candidates.map(({ token_id: id, removed_by: removed }, i) => ({
    name: piece(run, id),
    raw: shown.raw[i],
    processed: shown.processed[i],
    removed,
    on: id === step.emit.at(-1),
    go:
      forks && !run.eos_token_ids.includes(id)
        ? () => ctx.fork({ step: step.index, token_id: id })
        : null,
  }));
  bars.replaceChildren(...[...rows, restOf(shown)].flatMap(cellsOf));
  note.textContent = noteOf(run, step, shown);
}

/** @type {ViewSpec} */
export const candidates = {
  title: "Candidates of this step",
  heading: false,
  place: "step",
  empty: "The tokens the model considered, with their probability before and after the processors.",
  /** @param {Context} ctx */
  mount(root, ctx) {
    const bars = el("div", { class: "dp-bars" });
    const note = el("p", { class: "dp-note" });
    root.append(bars, note);
    return new Once((run, step) => paint(run, step, ctx, bars, note));
  },
};
