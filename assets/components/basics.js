// The views every strategy has: status, token strip, costs and scrubber.
(() => {
  const { el, piece, percent } = DP;
  const bits = (p) => p === null ? null : -Math.log2(Math.max(p, 1e-30));
  const level = (b) => b === null ? "" : b < 1 ? "" : b < 3 ? " s1" : b < 6 ? " s2" : " s3";

  DP.register("status", { title: "Status", heading: false, wide: true, mount(root) {
    const line = el("div", { class: "dp-status", role: "status", "aria-live": "polite" });
    root.append(line);
    const words = { running: "Decoding…", finished: "Done", stopped: "Stopped; what was decoded is kept", failed: "", paused: "Replaying", replayed: "Recorded: every number is as it was measured", recorded: "A recorded run, every number as it was measured. Press Run to make your own." };
    return { update(run) {
      line.className = "dp-status" + (run.error ? " bad" : "");
      const reason = run.outputs.length ? " · ended by " + [...new Set(run.outputs.map((o) => o.finish_reason))].join(", ") : "";
      const text = run.error || words[run.status] + (run.status === "finished" ? reason : "") + (run.notes || []).map((n) => " · " + n).join("");
      if (line.textContent !== text) line.textContent = text;
    }, select() {}, clear() { line.textContent = ""; } };
  } });

  DP.register("strip", { title: "Text", empty: "Press Run: the text appears here token by token, and every token can be opened to see what else was possible.", wide: true, mount(root, ctx) {
    const strip = el("div", { class: "dp-strip", role: "group", "aria-label": "Tokens; arrow keys move, the details below follow" });
    const legend = el("div", { class: "dp-legend" }, "Surprise:", el("span", { class: "dp-tok" }, "under 1 bit"), el("span", { class: "dp-tok s1" }, "1–3 bits"), el("span", { class: "dp-tok s2" }, "3–6 bits"), el("span", { class: "dp-tok s3" }, "over 6 bits"));
    root.append(strip, legend);
    let rows = [], selected = null, current = null;
    strip.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Home") ctx.select(0); else if (event.key === "End") ctx.select(1e9); else if (move) ctx.select(current.selected + move); else return;
      event.preventDefault();
      requestAnimationFrame(() => requestAnimationFrame(() => selected && selected.focus()));
    });
    function row(run, sequence) {
      if (rows[sequence]) return rows[sequence];
      const line = el("div", {}, run.tokens.length > 1 || run.config.num_return_sequences > 1 ? el("span", { class: "who" }, "Output " + (sequence + 1)) : null,
        run.model.is_encoder_decoder ? null : promptOf(run));
      strip.append(line);
      return rows[sequence] = { line, tokens: [] };
    }
    // A branch's prompt is its parent's text and what was put after it.
    function promptOf(run) {
      const added = run.parent ? run.parent.token_ids.length : 0, cut = run.prompt_ids.length - added;
      const text = (ids) => DP.visible(ids.map((id) => run.pieces[id] ?? "#" + id).join(""));
      return el("span", { class: "dp-prompt" }, run.prompt ? DP.visible(run.prompt) : text(run.prompt_ids.slice(0, cut)), added ? el("b", { class: "dp-added" }, text(run.prompt_ids.slice(cut))) : null);
    }
    function token(run, t) {
      const text = run.pieces[t.id] ?? "#" + t.id, b = bits(t.p);
      const special = run.eos_token_ids.includes(t.id);
      const say = "“" + piece(run, t.id) + "”" + (b !== null ? ", probability " + percent(t.p) + (t.processed ? " after the processors" : "") + ", surprise " + b.toFixed(1) + " bits" : "");
      const node = el("span", { role: "button", class: "dp-tok new" + level(b) + (special ? " special" : ""), tabindex: -1, title: say, "aria-label": say, "data-step": t.step, onclick: () => ctx.select(t.step),
        onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { ctx.select(t.step); event.preventDefault(); } } });
      // The space before a word stands outside its box, so that neither box nor underline breaks with the line.
      const lead = /^ +(?=\S)/.exec(text)?.[0] ?? "";
      // Line breaks are shown as a mark and then honoured; nothing of the text is ever parsed as HTML.
      text.slice(lead.length).split("\n").forEach((part, i) => { if (i) node.append(el("span", { class: "ws" }, "⏎"), "\n"); node.append(DP.visible(part)); });
      return { ...t, node, lead: document.createTextNode(lead) };
    }
    return { update(run) {
      current = run;
      run.tokens.forEach((list, sequence) => {
        const r = row(run, sequence);
        let same = 0;
        while (same < r.tokens.length && same < list.length && r.tokens[same].id === list[same].id && r.tokens[same].step === list[same].step) same++;
        r.tokens.splice(same).forEach((t) => { t.lead.remove(); t.node.remove(); });
        for (let i = same; i < list.length; i++) { const made = token(run, list[i]); r.line.append(made.lead, made.node); r.tokens.push(made); }
      });
    }, select(run, index) {
      if (selected) { selected.classList.remove("sel"); selected.tabIndex = -1; }
      selected = strip.querySelector('[data-step="' + index + '"]');
      if (selected) { selected.classList.add("sel"); selected.tabIndex = 0; }
    }, clear() { strip.replaceChildren(); rows = []; selected = null; } };
  } });

  DP.register("scrub", { title: "Step", heading: false, wide: true, empty: "After a run: walk through its steps, save it, share it.", mount(root, ctx) {
    let current = null;
    const range = el("input", { type: "range", min: 0, value: 0, "aria-label": "Step", oninput: () => ctx.select(+range.value) });
    const label = el("output", {});
    const save = el("button", { type: "button", class: "dp-btn", onclick: () => DP.save(current) }, "Download trace");
    const copy = el("button", { type: "button", class: "dp-btn", onclick: async () => { await navigator.clipboard.writeText(location.href); copy.textContent = "Link copied"; setTimeout(() => { copy.textContent = "Copy link"; }, 1500); } }, "Copy link");
    const costs = el("div", { class: "dp-costs" });
    root.append(el("div", { class: "dp-scrub" }, el("button", { type: "button", class: "dp-btn", "aria-label": "Previous step", onclick: () => ctx.select(current.selected - 1) }, "←"), range,
      el("button", { type: "button", class: "dp-btn", "aria-label": "Next step", onclick: () => ctx.select(current.selected + 1) }, "→"), label),
      costs, el("div", { class: "dp-row", style: { marginTop: "10px" } }, save, copy));
    costs.style.marginTop = "10px";
    const fact = (name, value) => el("span", {}, name + " ", el("b", {}, value));
    return { update(run) {
      current = run;
      range.max = Math.max(0, run.steps.length - 1);
      save.toggleAttribute("disabled", run.status === "running");
      copy.toggleAttribute("disabled", !!run.parent);
      copy.title = run.parent ? "A link holds a prompt, not a branch: download its trace instead" : "";
      const tokens = run.tokens.reduce((n, l) => n + l.length, 0), forwards = run.steps.reduce((n, s) => n + s.forward_passes, 0);
      const last = run.steps.at(-1), seconds = run.timing && run.status !== "running" ? run.timing.total_s : last ? last.elapsed_s : 0;
      costs.replaceChildren(fact("tokens", tokens), fact("forward passes", forwards), fact("seconds", seconds.toFixed(2)), fact("tokens/s", seconds ? (tokens / seconds).toFixed(1) : "–"),
        ...(run.timing && run.timing.first_token_s ? [fact("time to first token", (1000 * run.timing.first_token_s).toFixed(0) + " ms")] : []),
        ...(run.metrics && run.metrics.perplexity ? [fact("perplexity", run.metrics.perplexity.toFixed(2)), fact("repeated 3-grams", percent(run.metrics.rep_3))] : []));
    }, select(run, index) { range.value = index; label.textContent = "step " + (index + 1) + " of " + run.steps.length; }, clear() {} };
  } });
})();
