// View of the candidates of a step: the model's probability and the used one.
import { el } from "../shared/dom.mjs";
import { finalScoreText, findFinalScore, toProbability } from "../shared/final_scores.mjs";
import { processorTitle } from "../shared/processors.mjs";
import { findDecidedToken, findSelectedNode } from "../shared/record.mjs";
import { StepView } from "../shared/step_view.mjs";
import { renderTerms } from "../shared/terms.mjs";
import {
  formatFixed,
  formatModelAndUsed,
  formatPercent,
  toCssLength,
  tokenLabel,
  tokensText,
} from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/**
 * A row of the bars: probabilities by the model and as used, and what a press does.
 * @typedef {object} CandidateRow
 * @property {string} name
 * @property {number | null} raw null if it is not known
 * @property {number} processed
 * @property {string | null} removed the processor that removed it
 * @property {boolean} on whether the step chose it
 * @property {(() => void) | null} go continues from here with it
 * @property {(() => void) | null} why asks why it was chosen or not
 */

/**
 * Rows, the words below them, and further words that are folded. Without `seen` all rows are visible.
 * @typedef {object} StepContent
 * @property {CandidateRow[]} rows
 * @property {(string | HTMLElement)[]} words
 * @property {(string | HTMLElement)[]} [about]
 * @property {number} [seen]
 * @property {number} [more_raw]
 * @property {number} [more_processed]
 */

/**
 * The name of a candidate; a button where the run can be forked with it.
 * @param {CandidateRow} row
 */
function createLabel({ name, on, go, removed }) {
  const chosen = `${on ? " on" : ""}${removed ? " gone" : ""}`;
  if (!go) return el("span", { class: `t${chosen}`, title: name }, name);
  const title = tr("Continue from here with {name}", { name });
  const attrs = { type: "button", class: `t fm-pick${chosen}`, title, "aria-label": title };
  return el("button", { ...attrs, onclick: go }, name);
}

/**
 * Button that asks the server why the candidate was chosen or not; empty without a server.
 * @param {Pick<CandidateRow, "name" | "on" | "why">} row
 */
function createWhyButton({ name, on, why }) {
  if (!why) return "";
  const title = on ? tr("Why {name}?", { name }) : tr("Why not {name}?", { name });
  const attrs = { type: "button", class: "dp-why", title, "aria-label": title, onclick: why };
  return el("button", attrs, "?");
}

/** @param {CandidateRow} row */
const usedShare = ({ processed, removed }) => (removed ? 0 : processed);

/**
 * Whether a row's probability is another one than the model's.
 * @param {CandidateRow} row
 */
const isReshaped = (row) =>
  row.raw !== null && formatPercent(row.raw) !== formatPercent(usedShare(row));

/**
 * The head of the numbers.
 * @param {boolean} reshaped whether any row's probability is another one than the model's
 */
const createHeads = (reshaped) => [
  el("span", { class: "h" }, reshaped ? tr("with your settings") : tr("chance")),
  el("span", { class: "r" }),
];

const createLegend = () =>
  el(
    "p",
    { class: "dp-bars-legend" },
    el("i", {}),
    tr("with your settings"),
    el("u", {}),
    tr("the model's own"),
  );

/**
 * @param {CandidateRow} row
 * @param {number} longest share that fills a whole bar
 * @param {boolean} reshaped
 */
function createCells(row, longest, reshaped) {
  const { name, raw, removed, on, why } = row;
  const used = usedShare(row);
  const length = (/** @type {number} */ share) => toCssLength(share / longest);
  const numbers =
    raw === null
      ? tr("as used {used}", { used: formatPercent(used) })
      : tr("model {own}, as used {used}", { own: formatPercent(raw), used: formatPercent(used) });
  return [
    createLabel(row),
    el(
      "span",
      { class: `b${on ? " on" : ""}` },
      el("i", { style: { width: length(used) } }),
      raw === null || !reshaped ? null : el("u", { style: { width: length(raw) } }),
    ),
    el(
      "span",
      { class: "n", title: numbers },
      formatPercent(used),
      isReshaped(row) ? el("span", { class: "dp-sr" }, ` (${numbers})`) : null,
      createWhyButton({ name, on, why }),
    ),
    el(
      "span",
      {
        class: "r",
        title: removed ? tr("removed by {name}", { name: processorTitle(removed) }) : null,
      },
      removed ? `✕ ${processorTitle(removed)}` : "",
    ),
  ];
}

/**
 * Row with the probability of all other tokens.
 * @param {number | null} raw
 * @param {number} processed
 * @returns {CandidateRow}
 */
const createRestRow = (raw, processed) => ({
  name: tr("all others"),
  raw,
  processed,
  removed: null,
  on: false,
  go: null,
  why: null,
});

/**
 * The entropies of both distributions; only one if the processors did not change it.
 * @param {{ entropy: number, entropy_used: number }} shown
 * @param {string} size
 */
function entropyText({ entropy, entropy_used: used }, size) {
  const values = { size, entropy: formatFixed(entropy, 2), used: formatFixed(used, 2) };
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
 * @param {{ entropy: number, entropy_used: number }} shown
 */
const createWords = (run, step, shown) => ({
  words: renderTerms(`${severalTokensText(step)}${barsText(step)}`),
  about: renderTerms(entropyText(shown, run.model.vocab_size.toLocaleString("en"))),
});

/** @param {Step} step */
function severalTokensText({ emit: { length: n }, detail }) {
  if (n < 2 || detail?.kind === "beam") return "";
  return detail?.kind === "forward"
    ? tr("This [step] wrote {n} tokens; these are the candidates of the first. ", { n })
    : tr("This [step] wrote {n} tokens; these are the candidates of the last. ", { n });
}

/** @param {Step} step */
function barsText({ stages, detail }) {
  if (detail?.kind !== "forward") return "";
  return stages.length
    ? tr("Only the filters that were seen at work count here; the method may have done more.")
    : tr("The model's [probability]; what the method made of it was not seen.");
}

/**
 * Rows of the recorded candidates of a step.
 * @param {Run} run
 * @param {Step} step
 * @param {number} chosen
 * @param {Context} ctx
 * @param {(id: number) => (() => void) | null} forkWith
 * @returns {CandidateRow[]}
 */
function candidateRows(run, step, chosen, ctx, forkWith) {
  const shown = run.shown[step.index].candidates;
  const rows = step.candidates.map(({ token_id: id, removed_by: removed }, i) => ({
    name: tokenLabel(run, id),
    raw: shown.raw[i],
    processed: shown.processed[i],
    removed,
    on: id === chosen,
    go: forkWith(id),
    why: ctx.ask ? () => ctx.ask?.({ step: step.index, token_id: id }) : null,
  }));
  return [...rows, createRestRow(shown.rest_raw, shown.rest_processed)];
}

/**
 * Rows of a beam search step: the candidates of the pool that continue the same text as a node.
 * @param {Run} run
 * @param {Step} step
 * @param {BeamNode} node
 * @param {Context} ctx
 * @returns {CandidateRow[]}
 */
function poolRows(run, step, node, ctx) {
  const { p, model, rest } = run.shown[step.index].beam_tree;
  /** @type {BeamDetail} */
  const { pool } = step.detail;
  const rows = pool.flatMap((other, i) =>
    other.parent_id === node.parent_id && other.group === node.group
      ? [
          {
            name: tokenLabel(run, other.token_id),
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
  return [...rows, createRestRow(raw === null ? null : left, left)];
}

/**
 * @param {Run} run
 * @param {Step} step
 * @param {{ node: BeamNode, path: BeamNode[] }} found
 * @param {Context} ctx
 * @returns {StepContent}
 */
function createNodeContent(run, step, { node, path }, ctx) {
  const before = path.slice(0, -1).map((other) => other.token_id);
  const name = before.length
    ? tr("Continuations of “{text}”. ", { text: tokensText(run, before).trimStart() })
    : tr("Continuations of the prompt. ");
  const shown = run.shown[step.index];
  if (node.parent_id === shown.beam_tree.row) {
    const rows = candidateRows(run, step, node.token_id, ctx, () => null);
    const { words, about } = createWords(run, step, shown.candidates);
    return { rows, words: [name, ...words], about, ...shown.candidates };
  }
  const about = tr("Those of the step's pool; the record holds no others of this text.");
  return { rows: poolRows(run, step, node, ctx), words: [name, about] };
}

const UNSEEN_TEXT = tr("What decided this [step] was not seen.");
const NOT_WRITTEN_TEXT = tr("Nothing was written here that stands in the text.");

/**
 * Rows of a step whose distribution was not seen: the
 * scores of its last token in the finished text.
 * @param {Run} run
 * @param {Step} step
 * @returns {StepContent}
 */
function createScoredContent(run, step) {
  const found = findFinalScore(run, step, step.emit.length - 1);
  if (!found)
    return { rows: [], words: renderTerms(step.emit.length ? UNSEEN_TEXT : NOT_WRITTEN_TEXT) };
  /**
   * @param {number} id
   * @param {number} p
   */
  const row = (id, p) => ({
    ...INACTIVE,
    name: tokenLabel(run, id),
    raw: p,
    processed: p,
    on: id === found.id,
  });
  const rows = found.top.map(([id, p]) => row(id, p));
  if (rows.every(({ on }) => !on)) rows.push(row(found.id, toProbability(found.logprob)));
  return {
    rows,
    words: [
      ...renderTerms(UNSEEN_TEXT),
      tr(" Of the token that stands there {said}.", { said: finalScoreText(run, found) }),
    ],
  };
}

// Scores of the finished text allow neither a fork nor a question.
const INACTIVE = { removed: null, go: null, why: null };

/**
 * @param {Run} run
 * @param {Step} step
 * @param {Context} ctx
 * @returns {StepContent}
 */
function createStepContent(run, step, ctx) {
  const found = findSelectedNode(run, step);
  if (found) return createNodeContent(run, step, found, ctx);
  if (!step.candidates.length)
    return { seen: Number.POSITIVE_INFINITY, ...createScoredContent(run, step) };
  const forks = ctx.fork && !run.model.is_encoder_decoder;
  /** @param {number} id */
  const forkWith = (id) =>
    forks && !run.eos_token_ids.includes(id)
      ? () => ctx.fork?.({ step: step.index, token_id: id })
      : null;
  const shown = run.shown[step.index].candidates;
  const rows = candidateRows(run, step, findDecidedToken(step), ctx, forkWith);
  return { rows, ...createWords(run, step, shown), ...shown };
}

/** @type {ViewSpec} */
export const candidates = {
  title: tr("Candidates of this step"),
  heading: false,
  empty: tr("The tokens the model considered: the model's probability, and the one that was used."),
  /** @param {Context} ctx */
  mount(root, ctx) {
    const bars = el("div", { class: "dp-bars" });
    const legend = createLegend();
    const note = el("p", { class: "dp-note" });
    const others = el("div", { class: "dp-bars" });
    const summary = el("summary", {});
    const more = el("details", { class: "dp-more" }, summary, others);
    const about = el("p", { class: "dp-note" });
    const numbers = el(
      "details",
      { class: "dp-more" },
      el("summary", {}, tr("How sure the model was")),
      about,
    );
    root.append(bars, more, legend, note, numbers);
    /**
     * @param {Run} run
     * @param {Step} step
     */
    const paint = (run, step) => {
      const found = createStepContent(run, step, ctx);
      const { rows, words, seen = rows.length } = found;
      const reshaped = rows.some(isReshaped);
      const longest = Math.max(...rows.flatMap((row) => [row.raw ?? 0, usedShare(row)])) || 1;
      const cells = (/** @type {CandidateRow[]} */ shown) =>
        shown.flatMap((row) => createCells(row, longest, reshaped));
      // The last row, with all other tokens, always stays visible.
      const hidden = rows.slice(seen, -1);
      const heads = rows.length ? createHeads(reshaped) : [];
      bars.replaceChildren(...heads, ...cells(rows.filter((row) => !hidden.includes(row))));
      others.replaceChildren(...cells(hidden));
      more.hidden = !hidden.length;
      legend.hidden = !reshaped;
      if (hidden.length)
        summary.textContent = tr("{n} more, together {p}", {
          n: hidden.length,
          p: formatModelAndUsed(found.more_raw ?? 0, found.more_processed ?? 0),
        });
      note.replaceChildren(...words);
      note.hidden = !words.length;
      about.replaceChildren(...(found.about ?? []));
      numbers.hidden = !found.about;
    };
    /**
     * The scores of the finished text arrive at the end of the run.
     * @param {Run} run
     * @param {Step} step
     */
    const also = (run, step) => (step.candidates.length ? "" : (run.emitted?.length ?? 0));
    return new StepView(
      paint,
      (run, step) => findSelectedNode(run, step)?.node.node_id ?? also(run, step),
    );
  },
};
