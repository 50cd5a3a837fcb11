// Rescores the recorded hypotheses of a finished search with another length penalty.
import { tr } from "../shared/tr.mjs";

const FINISHED_FATES = ["finished", "finished_worse"];

/** @typedef {ReturnType<typeof scoreNode>} RankedText */

/**
 * A group of the search as its stopping test sees it. `done` and `recorded` are steps.
 * @typedef {{ scores: number[], done: number | null, recorded: number }} SearchGroup
 */

/** @param {Record<string, any>} config */
const usesOldScorer = (config) =>
  (config.num_beam_groups || 1) > 1 || Boolean(config.force_words_ids?.length);

/**
 * Rank the finished texts with a length penalty. It runs in the page, because the ranking follows
 * the slider while it is dragged.
 * @computed engine.statistics.rescoring.rescore_hypotheses
 * @param {Run} run
 * @param {number} penalty
 */
export function rescore(run, penalty) {
  const { config } = run;
  const details = run.steps.map((s) => s.detail);
  const last = details.length - 1;
  const lines = rankFinishedTexts(details, penalty);
  // With equal scores, the older scorer of transformers returns the last text of the last group.
  if (usesOldScorer(config)) lines.sort((a, b) => a.node.group - b.node.group).reverse();
  lines.sort((a, b) => b.score - a.score);
  const end = findStopStep(details, config, penalty);
  return { lines, end, rerun: rerunText(end, last) };
}

/**
 * Every text that ended, and the texts in the final list of hypotheses.
 * @param {BeamDetail[]} details
 * @param {number} penalty
 */
function rankFinishedTexts(details, penalty) {
  const held = new Set(details.at(-1)?.heap.map((h) => h.node_id));
  return details.flatMap((detail, i) =>
    detail.pool
      .filter((n) => FINISHED_FATES.includes(n.fate) || held.has(n.node_id))
      .map((node) => scoreNode(node, i + 1, penalty)),
  );
}

/**
 * @param {BeamNode} node
 * @param {number} length
 * @param {number} penalty
 */
function scoreNode(node, length, penalty) {
  const divisor = length ** penalty;
  return { node, length, divisor, score: node.sum_logprobs / divisor };
}

/**
 * @param {number | null} end
 * @param {number} last
 */
function rerunText(end, last) {
  if (end === null)
    return tr("With this penalty the search would not have stopped after step {n}.", {
      n: last + 1,
    });
  return end < last
    ? tr("With this penalty the search would have stopped after step {n}.", { n: end + 1 })
    : "";
}

/**
 * Index of the step after which the search would have stopped, null if it would have gone on.
 * @param {BeamDetail[]} details
 * @param {Record<string, any>} config
 * @param {number} penalty
 */
function findStopStep(details, config, penalty) {
  const count = config.num_beam_groups || 1;
  const last = details.length - 1;
  /** @type {SearchGroup[]} */
  const groups = Array.from({ length: count }, () => ({ scores: [], done: null, recorded: 0 }));
  details.forEach((detail, index) => {
    groups.forEach((group, number) => {
      const pool = detail.pool.filter((n) => n.group === number);
      if (pool.length) group.recorded = index;
      if (pool.length && group.done === null) advanceGroup(group, pool, index, config, penalty);
    });
  });
  const open = details[last].pool.some((n) => n.fate === "kept");
  if (!open || last + 1 >= config.max_new_tokens) for (const group of groups) group.done ??= last;
  const ends = groups.flatMap(({ done }) => (done === null ? [] : [done]));
  if (ends.length < groups.length) return null;
  const sooner = ends.filter((done, i) => done < groups[i].recorded);
  return sooner.length ? Math.min(...sooner) : Math.max(...ends);
}

/**
 * Advance one group by one step: keep its best finished texts and apply the stopping test.
 * @param {SearchGroup} group
 * @param {BeamNode[]} pool
 * @param {number} index
 * @param {Record<string, any>} config
 * @param {number} penalty
 */
function advanceGroup(group, pool, index, config, penalty) {
  const length = index + 1;
  const size = Math.max(1, Math.floor(config.num_beams / (config.num_beam_groups || 1)));
  const early = config.num_beams === 1 ? true : config.early_stopping;
  const ended = pool.filter((n) => FINISHED_FATES.includes(n.fate));
  group.scores = [...group.scores, ...ended.map((n) => n.sum_logprobs / length ** penalty)]
    .sort((a, b) => b - a)
    .slice(0, size);
  if (group.scores.length < size) return;
  const open = pool
    .filter((n) => usesOldScorer(config) || n.fate === "kept")
    .map((n) => n.sum_logprobs);
  const longest = early === "never" && penalty > 0 ? config.max_new_tokens : length;
  const reachable = Math.max(-Infinity, ...open) / longest ** penalty;
  if (early === true || group.scores[size - 1] >= reachable) group.done = index;
}
