// Two to four runs of one prompt side by side: their texts as they grow, and where they first part.
(() => {
  const { el, piece, percent, prob } = DP;
  const watchers = new Map();

  // A view without a picture of its own: it tells the comparison that a column's run moved on.
  DP.register("compare_watch", { title: "", heading: false, mount(root, ctx) {
    root.parentElement.classList.add("cmp-hidden");
    const tell = () => { const watcher = watchers.get(ctx.strategy); if (watcher) watcher(); };
    return { update: tell, select() {}, clear() {} };
  } });

  const alike = (runs) => runs.every((r) => r.model.vocab_size === runs[0].model.vocab_size && String(r.prompt_ids) === String(runs[0].prompt_ids));
  const ended = (run) => run.status !== "running";
  // Ids of one vocabulary are compared as ids, else the pieces of text they stand for.
  DP.parting = (runs) => {
    if (runs.length < 2) return null;
    const byId = alike(runs), lists = runs.map((r) => r.tokens[0] || []);
    for (let at = 0; ; at++) {
      if (lists.every((list) => at >= list.length)) return { common: at, at: null };
      const known = lists.map((list, i) => at < list.length ? (byId ? list[at].id : runs[i].pieces[list[at].id] ?? list[at].id) : ended(runs[i]) ? "end" : undefined);
      const seen = new Set(known.filter((k) => k !== undefined));
      if (seen.size > 1) return { common: at, at };
      if (known.includes(undefined)) return { common: at, at: null };
    }
  };
  // The nodes of the text that won; empty while the search goes on.
  function winner(run) {
    const nodes = new Map(), path = new Set(), last = run.steps[run.steps.length - 1].detail;
    if (!ended(run) || !last || last.winner_node_id === null) return path;
    for (const step of run.steps) for (const node of step.detail.pool) nodes.set(node.node_id, node);
    for (let node = nodes.get(last.winner_node_id); node; node = nodes.get(node.parent_id)) path.add(node.node_id);
    return path;
  }
  // What a run recorded of the place: the candidates of a step belong to the last token it wrote.
  function side(run, at) {
    const token = (run.tokens[0] || [])[at];
    if (!token) return { words: ended(run) ? "The text had ended." : "Not there yet." };
    const deep = run.steps.filter((s) => s.sequence === 0)[at];
    if (deep && deep.detail && deep.detail.kind === "beam") return { token, step: deep, pool: [...deep.detail.pool].sort((a, b) => b.sum_logprobs - a.sum_logprobs).slice(0, 6), path: winner(run) };
    const step = run.steps[token.step], offset = at - step.keep, drafted = step.detail && step.detail.kind === "draft" && step.detail.tokens[offset];
    if (offset === step.emit.length - 1) return { token, step, list: step.candidates.slice(0, 6), chosen: token.id };
    if (drafted) return { token, step, words: "Drafted and " + drafted.status + " in round " + (step.index + 1) + ": probability " + percent(drafted.p) + (drafted.q === null ? "" : ", the draft's " + percent(drafted.q)) + "." };
    return { token, step, words: "Written by step " + (step.index + 1) + ", which changed several tokens at once." };
  }
  function candidates(run, found) {
    const rows = [];
    if (found.pool) return el("div", {}, DP.table(["token", "log-probability of the text so far", "fate"], found.pool.map((n) => [(found.path.has(n.node_id) ? "▸ " : "") + piece(run, n.token_id), n.sum_logprobs.toFixed(2).replace("-", "−"), n.fate])), el("p", { class: "dp-note" }, found.note || "The best of all beams at this depth; ▸ is the text that won."));
    for (const c of found.list || []) {
      const on = c.token_id === found.chosen, p = prob(c.processed_logprob), own = prob(c.raw_logprob);
      rows.push(el("span", { class: "t" + (on ? " on" : "") }, piece(run, c.token_id)), el("span", { class: "b" + (c.removed_by ? " gone" : "") }, el("i", { style: { width: 100 * p + "%" } }), el("u", { style: { width: 100 * own + "%" } })), el("span", { class: "n" }, percent(p)), el("span", { class: "r" }, c.removed_by ? "✕ " + c.removed_by : ""));
    }
    return found.list ? el("div", { class: "dp-bars" }, rows) : el("p", { class: "dp-note" }, found.words);
  }

  Object.assign(DP, { partingSide: side, partingView: candidates });

  DP.compare = (root, spec, trigger) => {
    const prompt = el("textarea", { rows: 2, "aria-label": "Prompt", class: "cmp-prompt" }), seed = el("input", { type: "number", min: 0, step: 1, value: 0, "aria-label": "Seed" });
    const base = el("select", { "aria-label": "Base model that judges all texts" }, spec.models.filter((m) => m.role === "target").map((m) => el("option", { value: m.name }, m.title)));
    const run = el("button", { type: "button", class: "dp-btn cmp-run", onclick: () => press() }, "Run all"), stop = el("button", { type: "button", class: "dp-btn", disabled: true, onclick: () => trigger("stop", { id: session }) }, "Stop");
    const more = el("button", { type: "button", class: "dp-btn", onclick: () => { add(columns[columns.length - 1].form.ask()); fresh(); } }, "Add a column");
    const note = el("p", { class: "dp-status", role: "status" }), grid = el("div", { class: "cmp-grid" }), part = el("section", { class: "dp-card cmp-part", "aria-label": "Where the texts part" }), results = el("div", { class: "cmp-results" });
    const tries = el("div", { class: "dp-row cmp-presets", role: "group", "aria-label": "Comparisons to try" }, spec.presets.map((p) => el("button", { type: "button", class: "dp-btn", title: p.shows, onclick: () => choose(p) }, p.name)));
    root.classList.add("dp-stage");
    root.replaceChildren(el("div", { class: "dp-card cmp-ask" }, tries, el("label", {}, "Prompt", prompt), el("div", { class: "dp-row cmp-line" }, run, stop, el("label", {}, "Seed", seed), el("label", {}, "Judged by", base), more), note), grid, part, results);
    const figures = DP.compareFigures(results);
    let columns = [], number = Math.floor(Math.random() * 1e9), session = "", dirty = false;

    function add(start) {
      if (columns.length >= spec.labels.length) return;
      const label = spec.labels[columns.length], stage = el("div", { class: "dp-stage cmp-stage" });
      const remove = el("button", { type: "button", class: "dp-btn cmp-remove", "aria-label": "Remove column " + label, onclick: () => drop(column) }, "✕");
      const column = { label, stage, remove, form: null, key: "" };
      column.form = DP.compareForm(spec, "column " + label, start, () => {});
      column.node = el("section", { class: "cmp-column", "aria-label": "Column " + label }, el("div", { class: "cmp-head" }, el("b", {}, label), remove), column.form.box, stage);
      columns.push(column); grid.append(column.node); limits();
    }
    function drop(column) {
      const kept = columns.filter((c) => c !== column).map((c) => c.form.ask());
      columns = []; grid.replaceChildren(); kept.forEach(add); fresh();
    }
    function limits() { more.disabled = columns.length >= spec.labels.length; for (const c of columns) c.remove.hidden = columns.length <= 2; }
    function choose(preset) { prompt.value = preset.prompt; columns = []; grid.replaceChildren(); preset.columns.forEach(add); fresh(); note.textContent = preset.shows; }
    // New columns, new keys: what an earlier press still sends finds no place.
    function fresh() {
      number = (number + 1) % 2 ** 30; watchers.clear(); figures.clear();
      columns.forEach((column, i) => {
        const stage = el("div", { class: "dp-stage cmp-stage" });
        column.stage.replaceWith(stage); column.stage = stage;
        column.key = "compare-" + number + "-" + i;
        watchers.set(column.key, moved);
        DP.mount(column.stage, { strategy: column.key, visuals: ["status", "strip", "compare_watch", "candidates"] }, trigger);
      });
      part.replaceChildren(el("h3", {}, "Where the texts part"), el("p", { class: "dp-empty" }, "Run all: the tokens common to every text are set apart, and the first that differs is marked with what each run saw there."));
    }
    function press() {
      fresh();
      busy(true); note.className = "dp-status"; note.textContent = "Decoding one column after the other…";
      trigger("input", { number, prompt: prompt.value, seed: seed.value === "" ? null : Number(seed.value), base: base.value, columns: columns.map((c) => c.form.ask()) });
    }
    function busy(on) { run.disabled = on; stop.disabled = !on; }
    const runs = () => columns.map((c) => DP.runs.get(DP.runId(c.key))).filter((r) => r && r.steps.length);
    function moved() { if (!dirty) { dirty = true; requestAnimationFrame(() => { dirty = false; parting(); }); } }
    function parting() {
      const there = columns.filter((c) => { const r = DP.runs.get(DP.runId(c.key)); return r && r.steps.length; }), list = runs(), found = DP.parting(list);
      if (!found) return;
      there.forEach((c) => mark(c, found));
      part.dataset.at = found.at === null ? "" : found.at;
      const first = list[0], same = (first.tokens[0] || []).slice(0, found.common).map((t) => first.pieces[t.id] ?? "").join("");
      const lead = found.at === null ? (list.every(ended) && list.length === columns.length ? "All texts are the same, token for token: " + found.common + " tokens." : "The same so far: " + found.common + " tokens.")
        : found.at === 0 ? "The texts part at the very first token." : "The first " + found.common + " tokens are the same; at token " + (found.at + 1) + " the texts part.";
      part.replaceChildren(...[el("h3", {}, "Where the texts part"), el("p", { class: "cmp-lead" }, lead), same ? el("p", { class: "cmp-same" }, DP.visible(same)) : null,
        found.at === null ? null : el("div", { class: "cmp-sides" }, there.map((c, i) => {
          const seen = side(list[i], found.at);
          return el("div", {}, el("h4", {}, c.label + " · " + c.form.title(), seen.token ? [": wrote ", el("b", { class: "cmp-word" }, "“" + piece(list[i], seen.token.id) + "”")] : null), candidates(list[i], seen));
        }))].filter(Boolean));
    }
    function mark(column, found) {
      const line = column.stage.querySelector(".dp-strip > div"), nodes = line ? [...line.querySelectorAll(".dp-tok")] : [];
      nodes.forEach((node, i) => { node.classList.toggle("cmp-common", i < found.common); node.classList.toggle("cmp-parted", i === found.at); });
    }
    function receive(text) {
      if (!text) return;
      const message = JSON.parse(text);
      if (message.number !== number) return;
      if (message.kind === "begin") session = message.id;
      if (message.kind === "scoring") note.textContent = "The base model reads all texts…";
      if (message.kind === "refused") { busy(false); note.className = "dp-status bad"; note.textContent = message.error; }
      if (message.kind === "figures") { busy(false); note.textContent = ["Done.", ...message.notes].join(" "); figures.show(message); }
    }
    choose(spec.presets[0]);
    return { receive };
  };
})();
