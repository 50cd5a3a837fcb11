// View of the candidates of a step: the model's probability and the used one.
import { el } from "../shared/dom.mjs";
import { outsideOf, outsideSaid, probabilityOf } from "../shared/final_scores.mjs";
import { titleOf } from "../shared/processors.mjs";
import { nodeOf, ownToken } from "../shared/record.mjs";
import { Once } from "../shared/step_view.mjs";
import { told } from "../shared/terms.mjs";
import { bothOf, fixed, lengthOf, percent, piece, textOfIds } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

// The name of a candidate; a button where the run can be forked with it.
function labelOf(name, on, go) {
  const chosen = on ? " on" : "";
  if (!go) return el("span", { class: `t${chosen}`, title: name }, name);
  const title = tr("Continue from here with {name}", { name });
  const attrs = { type: "button", class: `t fm-pick${chosen}`, title, "aria-label": title };
  return el("button", { ...attrs, onclick: go }, name);
}

// Button that asks the server why the candidate was chosen or not; empty without a server.
function reasonOf({ name, on, why }) {
  if (!why) return "";
  const title = on ? tr("Why {name}?", { name }) : tr("Why not {name}?", { name });
  const attrs = { type: "button", class: "dp-why", title, "aria-label": title, onclick: why };
  return el("button", attrs, "?");
}

function cellsOf({ name, raw, processed, removed, on, go, why }) {
  const used = removed ? 0 : processed;
  const filled = { width: lengthOf(removed ? raw : processed) };
  const numbers =
    raw === null
      ? tr("as used {used}", { used: percent(used) })
      : tr("model {own}, as used {used}", { own: percent(raw), used: percent(used) });
  return [
    labelOf(name, on, go),
    el(
      "span",
      { class: `b${removed ? " gone" : ""}` },
      el("i", { style: filled }),
      raw === null ? null : el("u", { style: { width: lengthOf(raw) } }),
    ),
    el(
      "span",
      { class: "n", title: numbers },
      raw === null ? percent(used) : bothOf(raw, used),
      reasonOf({ name, on, why }),
    ),
    el(
      "span",
      { class: "r", title: removed ? tr("removed by {name}", { name: titleOf(removed) }) : null },
      removed ? `✕ ${titleOf(removed)}` : "",
    ),
  ];
}

// Row with the probability of all other tokens.
const restOf = (raw, processed) => ({
  name: tr("everything else"),
  raw,
  processed,
  removed: null,
  on: false,
  go: null,
  why: null,
});

// The entropies of both distributions; only one if the processors did not change it.
function entropiesOf({ entropy, entropy_used: used }, size) {
  const values = { size, entropy: fixed(entropy, 2), used: fixed(used, 2) };
  return used === entropy
    ? tr(
        "[entropy|Entropy] of the model's own distribution over the [vocabulary] of {size} tokens: {entropy} [bit|bits].",
        values,
      )
    : tr(
        "[entropy|Entropy] of the model's own distribution over the [vocabulary] of {size} tokens: {entropy} [bit|bits]; as used: {used} bits.",
        values,
      );
}

/**
 * @param {Run} run
 * @param {Step} step
 */
function noteOf(run, step, shown) {
  const size = run.model.vocab_size.toLocaleString("en");
  return `${severalOf(step)}${barsOf(step)} ${entropiesOf(shown, size)}`;
}

/** @param {Step} step */
function severalOf({ emit: { length: n }, detail }) {
  if (n < 2 || detail?.kind === "beam") return "";
  return detail?.kind === "forward"
    ? tr("This [step] wrote {n} tokens; these are the candidates of the first. ", { n })
    : tr("This [step] wrote {n} tokens; these are the candidates of the last. ", { n });
}

/** @param {Step} step */
function barsOf({ stages, detail }) {
  if (detail?.kind !== "forward")
    return tr(
      "Outline: the model's [probability]. Filled: as used, after the [processor|processors].",
    );
  return stages.length
    ? tr(
        "Outline: the model's [probability]. Filled: after the [processor|processors] that were seen at work; the method may have done more.",
      )
    : tr("The model's [probability]; what the method made of it was not seen.");
}

/**
 * Rows of the recorded candidates of a step.
 * @param {Run} run
 * @param {Step} step
 */
function rowsOf(run, step, chosen, ctx, forkWith) {
  const shown = run.shown[step.index].candidates;
  const rows = step.candidates.map(({ token_id: id, removed_by: removed }, i) => ({
    name: piece(run, id),
    raw: shown.raw[i],
    processed: shown.processed[i],
    removed,
    on: id === chosen,
    go: forkWith(id),
    why: ctx.ask ? () => ctx.ask?.({ step: step.index, token_id: id }) : null,
  }));
  return [...rows, restOf(shown.rest_raw, shown.rest_processed)];
}

/**
 * Rows of a beam search step: the candidates of the pool that continue the same text as a node.
 * @param {Run} run
 * @param {Step} step
 */
function besideNode(run, step, node, ctx) {
  const { p, model, rest } = run.shown[step.index].beam_tree;
  const { pool } = step.detail;
  const rows = pool.flatMap((other, i) =>
    other.parent_id === node.parent_id && other.group === node.group
      ? [
          {
            name: piece(run, other.token_id),
            raw: model[i],
            processed: p[i],
            removed: null,
            on: other.node_id === node.node_id,
            go: null,
            why: ctx.ask
              ? () =>
                  ctx.ask?.({ step: step.index, token_id: other.token_id, node_id: other.node_id })
              : null,
          },
        ]
      : [],
  );
  const left = rest[pool.indexOf(node)];
  const { raw } = rows[0];
  return [...rows, restOf(raw === null ? null : left, left)];
}

/**
 * @param {Run} run
 * @param {Step} step
 */
function ofNode(run, step, { node, path }, ctx) {
  const before = path.slice(0, -1).map((other) => other.token_id);
  const name = before.length
    ? tr("Continuations of “{text}”. ", { text: textOfIds(run, before).trimStart() })
    : tr("Continuations of the prompt. ");
  const shown = run.shown[step.index];
  if (node.parent_id === shown.beam_tree.row) {
    const rows = rowsOf(run, step, node.token_id, ctx, () => null);
    const words = [name, ...told(noteOf(run, step, shown.candidates))];
    return { rows, words, ...shown.candidates };
  }
  const about = tr("Those of the step's pool; the record holds no others of this text.");
  return { rows: besideNode(run, step, node, ctx), words: [name, about] };
}

const UNSEEN = tr("What decided this [step] was not seen.");
const GONE = tr("Nothing was written here that stands in the text.");

/**
 * Rows of a step whose distribution was not seen: the
 * scores of its last token in the finished text.
 * @param {Run} run
 * @param {Step} step
 */
function fromOutside(run, step) {
  const found = outsideOf(run, step, step.emit.length - 1);
  if (!found) return { rows: [], words: told(step.emit.length ? UNSEEN : GONE) };
  const row = (id, p) => ({
    ...outer,
    name: piece(run, id),
    raw: p,
    processed: p,
    on: id === found.id,
  });
  const rows = found.top.map(([id, p]) => row(id, p));
  if (rows.every(({ on }) => !on)) rows.push(row(found.id, probabilityOf(found.logprob)));
  return {
    rows,
    words: [
      ...told(UNSEEN),
      tr(" Of the token that stands there {said}.", { said: outsideSaid(run, found) }),
    ],
  };
}

// Scores of the finished text allow neither a fork nor a question.
const outer = { removed: null, go: null, why: null };

/**
 * @param {Run} run
 * @param {Step} step
 * @param {Context} ctx
 */
function shownOf(run, step, ctx) {
  const found = nodeOf(run, step);
  if (found) return ofNode(run, step, found, ctx);
  if (!step.candidates.length) return { seen: Number.POSITIVE_INFINITY, ...fromOutside(run, step) };
  const forks = ctx.fork && !run.model.is_encoder_decoder;
  const forkWith = (id) =>
    forks && !run.eos_token_ids.includes(id)
      ? () => ctx.fork({ step: step.index, token_id: id })
      : null;
  const shown = run.shown[step.index].candidates;
  const words = told(noteOf(run, step, shown));
  return { rows: rowsOf(run, step, ownToken(step), ctx, forkWith), words, ...shown };
}

/** @type {ViewSpec} */
export const candidates = {
  title: tr("Candidates of this step"),
  heading: false,
  place: "step",
  empty: tr("The tokens the model considered: the model's probability, and the one that was used."),
  /** @param {Context} ctx */
  mount(root, ctx) {
    const bars = el("div", { class: "dp-bars" });
    const note = el("p", { class: "dp-note" });
    const others = el("div", { class: "dp-bars" });
    const summary = el("summary", {});
    const more = el("details", { class: "dp-more" }, summary, others);
    root.append(bars, more, note);
    const paint = (run, step) => {
      const found = shownOf(run, step, ctx);
      const { rows, words, seen = rows.length } = found;
      // The last row, with all other tokens, always stays visible.
      const hidden = rows.slice(seen, -1);
      bars.replaceChildren(...rows.filter((row) => !hidden.includes(row)).flatMap(cellsOf));
      others.replaceChildren(...hidden.flatMap(cellsOf));
      more.hidden = !hidden.length;
      if (hidden.length)
        summary.textContent = tr("{n} more, together {p}", {
          n: hidden.length,
          p: bothOf(found.more_raw, found.more_processed),
        });
      note.replaceChildren(...words);
    };
    // The scores of the finished text arrive at the end of the run.
    const also = (run, step) => (step.candidates.length ? "" : (run.emitted?.length ?? 0));
    return new Once(paint, (run, step) => nodeOf(run, step)?.node.node_id ?? also(run, step));
  },
};
