// The thinking sections of a finished text: where they begin and end, and what the budget wrote.
import { el } from "../shared/dom.mjs";
import { tr } from "../shared/tr.mjs";

/** @import { Mark } from "./marks.mjs" */

const THOUGHT = tr("thinking");
const FORCED = tr("forced by the thinking budget");

/** @param {string} name */
const createPhase = (name) => el("b", { class: "tx-phase" }, name);

/**
 * Mark the words of the thinking sections, and name the phases before them.
 * @param {Run} run
 * @param {{ node: HTMLElement, lead: HTMLElement | Text, mark: Mark }[][]} rows words of every output
 */
export function markThinking(run, rows) {
  for (const [sequence, sections] of (run.thinking?.texts ?? []).entries()) {
    const tokens = rows[sequence] ?? [];
    for (const { start, end, forced } of sections) {
      tokens[start]?.lead.before(createPhase(tr("Thinking")));
      tokens[end]?.lead.before(createPhase(tr("Answer")));
      for (const [at, token] of tokens.entries()) {
        if (at < start || at >= end) continue;
        const isForced = forced !== null && at >= forced;
        token.node.classList.add(isForced ? "tx-forced" : "tx-thought");
        const said = [token.mark.said, isForced ? FORCED : THOUGHT].filter(Boolean).join(", ");
        token.mark = { ...token.mark, said };
      }
    }
  }
}

/**
 * What the marks mean; empty without a section.
 * @param {Run} run
 */
export function createThinkingLegend(run) {
  const sections = run.thinking?.texts.flat() ?? [];
  if (!sections.length) return [];
  const forced = sections.some((section) => section.forced !== null);
  return [
    el("span", { class: "dp-tok tx-thought" }, THOUGHT),
    ...(forced ? [el("span", { class: "dp-tok tx-forced" }, FORCED)] : []),
  ];
}
