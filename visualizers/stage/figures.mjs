// View of the figures of a run, with the buttons that save and share it.
import { createButton, createFact, el } from "../shared/dom.mjs";
import { findSelectedSequence, hasSeveralOutputs } from "../shared/record.mjs";
import { term } from "../shared/terms.mjs";
import { formatFixed, formatMilliseconds, formatPercent } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { saveTrace } from "./download.mjs";

/**
 * Costs of a run that a server decoded, as far as it reported them.
 * @param {Run} run
 */
function createServedCosts({ served, timing, metrics, tokens }) {
  const facts = [createFact(term("token", tr("tokens")), tokens.flat().length)];
  if (served?.prompt_tokens) facts.push(createFact(tr("prompt tokens"), served.prompt_tokens));
  if (timing?.total_s) facts.push(createFact(tr("seconds"), formatFixed(timing.total_s, 2)));
  if (metrics?.tokens_per_s)
    facts.push(createFact(tr("tokens per second"), formatFixed(metrics.tokens_per_s, 1)));
  return facts;
}

/**
 * Costs of a run: its metrics once it has ended, before that the summary of its last step.
 * @param {Run} run
 */
function createCosts(run) {
  const { timing, metrics } = run;
  const last = run.shown.at(-1)?.text;
  /** @type {Record<string, any>} */
  const costs =
    metrics?.new_tokens === undefined
      ? (last ?? { tokens: 0, forward_passes: 0 })
      : { tokens: metrics.new_tokens, ...metrics };
  const seconds =
    timing && metrics?.new_tokens !== undefined
      ? timing.total_s
      : (run.steps.at(-1)?.elapsed_s ?? 0);
  const facts = [
    createFact(term("token", tr("tokens")), costs.tokens),
    createFact(term("forward pass", tr("forward passes")), costs.forward_passes),
    createFact(tr("seconds"), formatFixed(seconds, 2)),
    createFact(
      tr("tokens per second"),
      costs.tokens_per_s ? formatFixed(costs.tokens_per_s, 1) : "–",
    ),
  ];
  if (last && last.first_token_s !== null)
    facts.push(createFact(term("time to first token"), formatMilliseconds(last.first_token_s)));
  return facts;
}

/**
 * Figures of the output of the selected step, up to the newest step.
 * @param {Run} run
 */
function createTextFigures(run) {
  const sequence = findSelectedSequence(run);
  const at = run.steps.findLastIndex((step) => step.sequence === sequence);
  const own = run.shown[at]?.text.own;
  if (!own) return [];
  const facts = [];
  if (hasSeveralOutputs(run))
    facts.push(
      el("span", {}, tr("of output {n}:", { n: sequence + 1 })),
      createFact(tr("tokens"), own.tokens),
    );
  if (own.perplexity !== null)
    facts.push(createFact(term("perplexity"), formatFixed(own.perplexity, 2)));
  return [...facts, createFact(term("rep-n", tr("repeated 3-grams")), formatPercent(own.rep_3))];
}

/**
 * A control that a page adds to a view.
 * @typedef {object} Offer
 * @property {HTMLElement} node
 * @property {(run: Run) => void} update
 */

/**
 * @param {() => Offer[]} [offers]
 * @returns {ViewSpec}
 */
export const createFiguresView = (offers = () => []) => ({
  title: tr("Numbers"),
  place: "drawer",
  empty: tr("After a run: its numbers, and buttons that save and share it."),
  /** @param {Context} ctx */
  mount(root, ctx) {
    /** @type {Run | null} */
    let current = null;
    const save = createButton(tr("Download trace"), () => current && saveTrace(current));
    const more = offers();
    const costs = el("div", { class: "dp-costs" });
    const present = createButton(tr("Full screen"), () => ctx.present(), {
      title: tr("Text, picture and step alone"),
    });
    const buttons = [save, ...more.map((offer) => offer.node), present];
    root.append(costs, el("div", { class: "dp-row dp-share" }, buttons));
    return {
      update(run) {
        current = run;
        save.toggleAttribute("disabled", run.status === "running");
        for (const offer of more) offer.update(run);
        const spent = run.served ? createServedCosts(run) : createCosts(run);
        costs.replaceChildren(...spent, ...createTextFigures(run));
      },
      select() {},
      clear() {},
    };
  },
});
