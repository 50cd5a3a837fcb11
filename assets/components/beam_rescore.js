// Rescoring a finished search: the recorded hypotheses under another length penalty, sums written out.
(() => {
  const { el, piece } = DP;
  const ENDED = ["finished", "finished_worse"], SHOWN = 12;
  const signed = (x, digits = 4) => x.toFixed(digits).replace("-", "−");

  // The same arithmetic as engine/rescoring.py; a test compares the two.
  function rescore(run, penalty) {
    const details = run.steps.map((s) => s.detail), last = details.length - 1, config = run.config;
    const heap = new Set(details[last].heap.map((h) => h.node_id));
    const lines = details.flatMap((d, i) => d.pool.filter((n) => ENDED.includes(n.fate) || heap.has(n.node_id)).map((n) => ({ node: n, length: i + 1, score: n.sum_logprobs / (i + 1) ** penalty })));
    lines.sort((a, b) => b.score - a.score);
    const end = endOf(details, config, penalty);
    const rerun = end === null ? "With this penalty the search would not have stopped after step " + (last + 1) + "." : end < last ? "With this penalty the search would have stopped after step " + (end + 1) + "." : "";
    return { lines, end, rerun };
  }
  function endOf(details, config, penalty) {
    const count = config.num_beam_groups || 1, size = Math.max(1, Math.floor(config.num_beams / count)), last = details.length - 1;
    const older = count > 1 || Boolean(config.force_words_ids && config.force_words_ids.length), early = config.num_beams === 1 ? true : config.early_stopping;
    const groups = Array.from({ length: count }, () => ({ scores: [], done: null, recorded: 0 }));
    details.forEach((detail, index) => groups.forEach((group, number) => {
      const pool = detail.pool.filter((n) => n.group === number), length = index + 1;
      if (pool.length) group.recorded = index;
      if (!pool.length || group.done !== null) return;
      for (const n of pool) if (ENDED.includes(n.fate)) group.scores = [...group.scores, n.sum_logprobs / length ** penalty].sort((a, b) => b - a).slice(0, size);
      if (group.scores.length < size) return;
      const open = pool.filter((n) => older || n.fate === "kept").map((n) => n.sum_logprobs);
      const longest = early === "never" && penalty > 0 ? config.max_new_tokens : length;
      if (early === true || group.scores[size - 1] >= Math.max(-Infinity, ...open) / longest ** penalty) group.done = index;
    }));
    if (!details[last].pool.some((n) => n.fate === "kept") || last + 1 >= config.max_new_tokens) for (const g of groups) if (g.done === null) g.done = last;
    if (groups.some((g) => g.done === null)) return null;
    const sooner = groups.filter((g) => g.done < g.recorded).map((g) => g.done);
    return sooner.length ? Math.min(...sooner) : Math.max(...groups.map((g) => g.done));
  }

  DP.register("beam_rescore", { title: "Another length penalty", empty: "When the search has ended: the finished texts ranked with any length penalty, without running again.", wide: true, mount(root) {
    const slider = el("input", { type: "range", min: -2, max: 5, step: 0.1, "aria-label": "Length penalty", oninput: () => show() });
    const value = el("output", { class: "br-value" }), note = el("p", { class: "dp-note", "aria-live": "polite" }), list = el("div", {});
    root.append(el("label", { class: "dp-row br-slider" }, "Length penalty ", slider, value), note, list);
    let run = null, parents = null;
    function show() {
      if (!run) return;
      const penalty = Number(slider.value), result = rescore(run, penalty), own = run.config.length_penalty, winner = run.steps[run.steps.length - 1].detail.winner_node_id;
      value.textContent = penalty.toFixed(1) + (Math.abs(penalty - own) < 1e-9 ? " (as it ran)" : "");
      const first = result.lines[0] && result.lines[0].node.node_id;
      note.textContent = (first === winner ? "The winner stays the same." : "Another text would win.") + " " + (result.rerun ? result.rerun + " Run it again to see that search: it may know other texts." : "The search would have stopped where it did, so this ranking is exact.");
      note.dataset.first = first; note.dataset.end = String(result.end);
      list.replaceChildren(DP.table(["place", "score = sum ÷ length ^ penalty", "text"], result.lines.slice(0, SHOWN).map((line, i) => [(line.node.node_id === winner ? "★ " : "") + (i + 1), signed(line.node.sum_logprobs) + " ÷ " + line.length + "^" + penalty.toFixed(1) + " = " + signed(line.score), textOf(line.node.node_id)])));
      if (result.lines.length > SHOWN) list.append(el("p", { class: "dp-note" }, "and " + (result.lines.length - SHOWN) + " more"));
    }
    function textOf(id) { const parts = []; for (let at = id; at !== -1; at = parents.get(at).parent_id) parts.unshift(run.pieces[parents.get(at).token_id] ?? "#" + parents.get(at).token_id); return DP.visible(parts.join("")); }
    return { update(now) {
      const step = now.steps[now.steps.length - 1], ready = step && step.detail && step.detail.kind === "beam" && step.detail.stopping;
      root.hidden = !ready;
      if (!ready || run === now) return;
      run = now; parents = new Map(now.steps.flatMap((s) => s.detail.pool.map((n) => [n.node_id, n])));
      slider.value = now.config.length_penalty;
      show();
    }, select() {}, clear() { run = null; list.replaceChildren(); note.textContent = ""; } };
  } });
  DP.rescore = rescore;
})();
