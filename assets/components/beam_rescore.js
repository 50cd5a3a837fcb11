// Rescoring a finished search: the recorded hypotheses under another length penalty, sums written out.
(() => {
  const { el } = DP, B = DP.beams;
  const ENDED = ["finished", "finished_worse"], SHOWN = 12, { signed } = B;

  const isOlder = (config) => (config.num_beam_groups || 1) > 1 || Boolean(config.force_words_ids && config.force_words_ids.length);

  // The same arithmetic as engine/rescoring.py; a test compares the two.
  function rescore(run, penalty) {
    const details = run.steps.map((s) => s.detail), last = details.length - 1, config = run.config;
    const heap = new Set(details[last].heap.map((h) => h.node_id));
    const lines = details.flatMap((d, i) => d.pool.filter((n) => ENDED.includes(n.fate) || heap.has(n.node_id)).map((n) => ({ node: n, length: i + 1, score: n.sum_logprobs / (i + 1) ** penalty })));
    // Of equals the older scorer returns the last one of the last group.
    if (isOlder(config)) lines.sort((a, b) => a.node.group - b.node.group).reverse();
    lines.sort((a, b) => b.score - a.score);
    const end = endOf(details, config, penalty);
    const rerun = end === null ? "With this penalty the search would not have stopped after step " + (last + 1) + "." : end < last ? "With this penalty the search would have stopped after step " + (end + 1) + "." : "";
    return { lines, end, rerun };
  }
  function endOf(details, config, penalty) {
    const count = config.num_beam_groups || 1, size = Math.max(1, Math.floor(config.num_beams / count)), last = details.length - 1;
    const older = isOlder(config), early = config.num_beams === 1 ? true : config.early_stopping;
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
  const power = (length, penalty) => { const p = length ** penalty; return p >= 0.001 && p < 1e6 ? String(+p.toPrecision(6)) : p.toExponential(3).replace("e+", "e"); };

  DP.register("beam_rescore", { title: "Another length penalty", empty: "When the search has ended: the finished texts ranked with any length penalty, without running again.", wide: true, mount(root) {
    const slider = el("input", { type: "range", min: -2, max: 5, step: 0.1, "aria-label": "Length penalty", oninput: () => show() });
    const back = el("button", { type: "button", class: "dp-btn", onclick: () => { slider.value = run.config.length_penalty; show(); } }, "As it ran");
    const value = el("output", { class: "br-value" }), note = el("p", { class: "dp-note", "aria-live": "polite" }), list = el("div", { class: "br-list" });
    const waiting = el("p", { class: "dp-empty" }, "The finished texts are ranked here when the search has ended.");
    const body = el("div", {}, el("div", { class: "dp-row br-slider" }, el("label", { class: "dp-row br-slider" }, "Length penalty ", slider), value, back), note, list,
      el("p", { class: "dp-note" }, "The score of a text is the sum of its log-probabilities ÷ its number of new tokens ^ length penalty. The prompt does not count, the end mark does."));
    root.append(waiting, body);
    body.hidden = true;
    let run = null, forest = null;
    function show() {
      if (!run) return;
      const penalty = Number(slider.value), result = rescore(run, penalty), own = run.config.length_penalty, same = Math.abs(penalty - own) < 1e-9, winner = run.steps[run.steps.length - 1].detail.winner_node_id;
      value.textContent = penalty.toFixed(1).replace("-", "−") + (same ? " (as it ran)" : "");
      back.toggleAttribute("disabled", same);
      const first = result.lines[0] && result.lines[0].node.node_id, before = new Map(rescore(run, own).lines.map((line, i) => [line.node.node_id, i]));
      note.textContent = (first === winner ? "The winner stays the same." : "Another text would win.") + " " + (result.rerun ? result.rerun + " Run it again to see that search: it may know other texts." : "The search would have stopped where it did, so this ranking is exact.");
      note.dataset.first = first; note.dataset.end = String(result.end);
      const items = result.lines.slice(0, SHOWN).map((line, i) => {
        const moved = before.get(line.node.node_id) - i, sum = signed(line.node.sum_logprobs, 4), shown = penalty.toFixed(1).replace("-", "−");
        const item = B.entry((line.node.node_id === winner ? "★ " : "") + (i + 1), sum + " ÷ " + line.length + "^" + shown + " = " + sum + " ÷ " + power(line.length, penalty) + " = " + signed(line.score, 4), textOf(line.node.node_id), moved ? el("span", { class: "move" }, (moved > 0 ? "▲ up " : "▼ down ") + Math.abs(moved)) : null);
        if (!i) item.classList.add("first");
        return item;
      });
      list.replaceChildren(el("ol", { class: "bt-heap", tabindex: 0, "aria-label": "Finished texts with this length penalty, best first" }, items));
      if (result.lines.length > SHOWN) list.append(el("p", { class: "dp-note" }, "and " + (result.lines.length - SHOWN) + " more"));
    }
    function textOf(id) { const parts = []; for (let at = id; at !== -1; at = forest.get(at).parent_id) parts.unshift(run.pieces[forest.get(at).token_id] ?? "#" + forest.get(at).token_id); return DP.visible(parts.join("")); }
    return { update(now) {
      const step = now.steps[now.steps.length - 1], ready = Boolean(step && step.detail && step.detail.kind === "beam" && step.detail.stopping);
      waiting.hidden = ready; body.hidden = !ready;
      if (!ready || run === now) return;
      run = now; forest = new Map(now.steps.flatMap((s) => s.detail.pool.map((n) => [n.node_id, n])));
      slider.value = now.config.length_penalty;
      show();
    }, select() {}, clear() { run = null; list.replaceChildren(); note.textContent = ""; body.hidden = true; waiting.hidden = false; } };
  } });
  DP.rescore = rescore;
})();
