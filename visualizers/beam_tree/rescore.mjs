// Rescoring a finished search: the recorded hypotheses under another length penalty, sums written out.

const ENDED = ["finished", "finished_worse"];

const isOlder = (config) =>
  (config.num_beam_groups || 1) > 1 || Boolean(config.force_words_ids?.length);

// The same arithmetic as engine/rescoring.py; a test compares the two.
export function rescore(run, penalty) {
  const details = run.steps.map((s) => s.detail),
    last = details.length - 1,
    config = run.config;
  const heap = new Set(details[last].heap.map((h) => h.node_id));
  const lines = details.flatMap((d, i) =>
    d.pool
      .filter((n) => ENDED.includes(n.fate) || heap.has(n.node_id))
      .map((n) => ({ node: n, length: i + 1, score: n.sum_logprobs / (i + 1) ** penalty })),
  );
  // Of equals the older scorer returns the last one of the last group.
  if (isOlder(config)) lines.sort((a, b) => a.node.group - b.node.group).reverse();
  lines.sort((a, b) => b.score - a.score);
  const end = endOf(details, config, penalty);
  const rerun =
    end === null
      ? `With this penalty the search would not have stopped after step ${last + 1}.`
      : end < last
        ? `With this penalty the search would have stopped after step ${end + 1}.`
        : "";
  return { lines, end, rerun };
}
function endOf(details, config, penalty) {
  const count = config.num_beam_groups || 1,
    size = Math.max(1, Math.floor(config.num_beams / count)),
    last = details.length - 1;
  const older = isOlder(config),
    early = config.num_beams === 1 ? true : config.early_stopping;
  const groups = Array.from({ length: count }, () => ({ scores: [], done: null, recorded: 0 }));
  details.forEach((detail, index) =>
    groups.forEach((group, number) => {
      const pool = detail.pool.filter((n) => n.group === number),
        length = index + 1;
      if (pool.length) group.recorded = index;
      if (!pool.length || group.done !== null) return;
      for (const n of pool)
        if (ENDED.includes(n.fate))
          group.scores = [...group.scores, n.sum_logprobs / length ** penalty]
            .sort((a, b) => b - a)
            .slice(0, size);
      if (group.scores.length < size) return;
      const open = pool.filter((n) => older || n.fate === "kept").map((n) => n.sum_logprobs);
      const longest = early === "never" && penalty > 0 ? config.max_new_tokens : length;
      if (
        early === true ||
        group.scores[size - 1] >= Math.max(-Infinity, ...open) / longest ** penalty
      )
        group.done = index;
    }),
  );
  if (!details[last].pool.some((n) => n.fate === "kept") || last + 1 >= config.max_new_tokens)
    for (const g of groups) if (g.done === null) g.done = last;
  if (groups.some((g) => g.done === null)) return null;
  const sooner = groups.filter((g) => g.done < g.recorded).map((g) => g.done);
  return sooner.length ? Math.min(...sooner) : Math.max(...groups.map((g) => g.done));
}
