// The store every view draws from: runs by id, fed by one hidden bus, drawn once per animation frame.
window.DP = (() => {
  const runs = new Map(), current = new Map(), stages = [], views = new Map();
  let bus = null, plotlyPromise = null;

  const el = (tag, attrs, ...children) => fill(document.createElement(tag), attrs, children);
  const svg = (tag, attrs, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attrs, children);
  function fill(node, attrs, children) {
    for (const [key, value] of Object.entries(attrs || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (key === "style" && typeof value === "object") Object.assign(node.style, value);
      else node.setAttribute(key, value === true ? "" : value);
    }
    for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child instanceof Node ? child : document.createTextNode(String(child)));
    return node;
  }

  // Text of a token with invisible characters made visible; a space inside words stays a space.
  const MARKS = { "\n": "⏎", "\t": "⇥", "\r": "␍", "\u0000": "␀", "\u00a0": "⍽" };
  const visible = (text) => text.replace(/[\u0000-\u001f\u00a0\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g,
    (c) => MARKS[c] || "⟨U+" + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩");
  const piece = (run, id) => { const text = run.pieces[id] ?? "#" + id; return visible(text).replace(/^ +| +$/g, (s) => "·".repeat(s.length)); };
  const percent = (p) => p >= 0.9995 ? "100 %" : p >= 0.1 ? (100 * p).toFixed(1) + " %" : p >= 0.0001 ? (100 * p).toFixed(2) + " %" : p > 0 ? "<0.01 %" : "0";
  const prob = (logprob) => logprob === null || logprob === undefined ? 0 : Math.exp(logprob);

  function receive(text) {
    if (!text) return;
    const message = JSON.parse(text);
    if (message.kind === "start") begin(message);
    if (message.kind === "fail" && !runs.has(message.run)) return refuse(message);
    if (message.kind === "state" && message.messages[0]?.kind === "start") begin({ ...message.messages[0], run: message.run });
    const run = runs.get(message.run);
    // A page that missed even the beginning asks for the whole, or it would stay silent to the end.
    if (!run) return message.kind !== "state" && bus && bus("input", { run: message.run });
    if (message.kind === "state") { restore(run, message); return draw(run); }
    if (message.seq < run.next) return;
    if (message.seq > run.next) return bus && bus("input", { run: message.run });
    run.next = message.seq + 1;
    apply(run, message);
    draw(run);
  }
  function begin(message) {
    if (runs.has(message.run)) return;
    const run = { id: message.run, next: message.seq, status: "running", steps: [], outputs: [], pieces: {}, texts: [], tokens: [], selected: null, follow: true, error: "" };
    runs.set(run.id, run);
    current.set(message.strategy, run.id);
    while (runs.size > 24) runs.delete(runs.keys().next().value);
  }
  // A request that never started leaves what was drawn before in place and says why.
  function refuse(message) {
    if (!current.has(message.strategy)) {
      begin(message);
      Object.assign(runs.get(message.run), { status: "failed", config: {}, model: {}, eos_token_ids: [], prompt_ids: [] });
    }
    const run = runs.get(current.get(message.strategy));
    run.error = message.error;
    draw(run);
  }
  function apply(run, message) {
    if (message.kind === "start") { Object.assign(run, message.header); run.pieces = { ...message.header.pieces }; run.link = message.link; history.replaceState(null, "", message.link); }
    if (message.pieces) Object.assign(run.pieces, message.pieces);
    for (const step of message.steps || []) addStep(run, step);
    for (const [sequence, keep, text] of message.texts || []) run.texts[sequence] = (run.texts[sequence] || "").slice(0, keep) + text;
    if (message.kind === "finish") { Object.assign(run, message.rest); run.status = run.outputs.some((o) => o.finish_reason === "cancelled") ? "stopped" : "finished"; }
    if (message.kind === "fail") { run.status = "failed"; run.error = message.error; }
  }
  // How probable a token was where it stands. The candidates of a step are those of the last token it wrote; the
  // tokens before that one have their probability from the draft's or the beams' record.
  function chance(run, step, list, offset) {
    const detail = step.detail || {}, at = step.keep + offset;
    if (detail.kind === "beam") {
      for (const node of run.steps[list.length - 1].detail.pool) {
        const path = pathOf(run, node, list.length - 1);
        if (path.length === list.length && path.every((n, i) => n.token_id === list[i].id)) return { p: Math.exp(path[at].logprob), processed: true };
      }
      return { p: null };
    }
    const drafted = detail.kind === "draft" && detail.tokens[offset];
    if (drafted && drafted.status === "accepted") return { p: drafted.p, processed: true };
    const own = offset === step.emit.length - 1 && step.candidates.find((c) => c.token_id === list[at].id);
    return { p: own && own.raw_logprob !== null ? Math.exp(own.raw_logprob) : null };
  }
  function pathOf(run, node, depth) {
    const path = [];
    for (; node; node = depth < 0 ? null : run.steps[depth].detail.pool.find((n) => n.node_id === node.parent_id)) { path.unshift(node); depth -= 1; }
    return path;
  }
  function addStep(run, step) {
    run.steps.push(step);
    const list = run.tokens[step.sequence] || (run.tokens[step.sequence] = []);
    list.length = step.keep;
    for (const id of step.emit) list.push({ id, step: step.index });
    step.emit.forEach((id, offset) => Object.assign(list[step.keep + offset], chance(run, step, list, offset)));
    if (run.follow) run.selected = step.index;
  }
  function restore(run, message) {
    const keep = { selected: run.selected, follow: run.follow };
    Object.assign(run, { steps: [], tokens: [], texts: [] });
    for (const part of message.messages) { run.next = part.seq + 1; apply(run, part); }
    Object.assign(run, keep.follow ? {} : keep);
    for (const stage of stages) stage.drawn = 0;
  }

  // One stage per strategy tab: mounts the views and redraws what changed.
  function mount(root, options, trigger) {
    for (let i = stages.length; i--;) if (stages[i].root === root || !stages[i].root.isConnected && stages[i].run) stages.splice(i, 1);
    const stage = { root, ...options, drawn: 0, run: null, views: [], dirty: false };
    const ctx = { trigger, strategy: options.strategy, select: (index) => select(stage.run, index) };
    root.replaceChildren();
    for (const name of options.visuals) {
      const spec = views.get(name);
      if (!spec) continue;
      const box = el("section", { class: "dp-card dp-v-" + name + (spec.wide ? " wide" : ""), "aria-label": spec.title }, spec.heading === false ? null : el("h3", {}, spec.title));
      const body = el("div", {}), empty = el("p", { class: "dp-empty" }, spec.empty || "");
      box.append(empty, body);
      root.append(box);
      stage.views.push({ name, view: spec.mount(body, ctx), empty, body });
      body.hidden = true;
    }
    stages.push(stage);
    const id = current.get(options.strategy);
    if (id) schedule(stage);
  }
  function draw(run) { for (const stage of stages) if (current.get(stage.strategy) === run.id) schedule(stage); }
  function schedule(stage) {
    if (stage.dirty) return;
    stage.dirty = true;
    (document.hidden ? (f) => setTimeout(f, 200) : requestAnimationFrame)(() => { stage.dirty = false; paint(stage); });
  }
  function paint(stage) {
    const run = runs.get(current.get(stage.strategy));
    if (!run || !stage.root.isConnected || !stages.includes(stage)) return;
    if (stage.run !== run) { stage.run = run; stage.drawn = 0; for (const v of stage.views) v.view.clear(); }
    if (run.steps.length < stage.drawn) { stage.drawn = 0; for (const v of stage.views) v.view.clear(); }
    for (const v of stage.views) {
      v.empty.hidden = run.steps.length > 0 || v.name === "status";
      v.body.hidden = !v.empty.hidden;
      v.view.update(run, stage.drawn);
      if (run.selected !== null) v.view.select(run, run.selected);
    }
    stage.drawn = run.steps.length;
  }
  function select(run, index) {
    if (!run || !run.steps.length) return;
    run.selected = Math.max(0, Math.min(run.steps.length - 1, index));
    run.follow = run.status === "running" && run.selected === run.steps.length - 1;
    draw(run);
  }
  // A recorded run: shown whole, or as far as a player has come; nothing is asked of a model.
  function showTrace(key, trace, status) {
    const run = { ...trace, id: "recorded-" + (++recorded), next: 0, status, steps: [], outputs: [], pieces: { ...trace.pieces }, texts: [], tokens: [], selected: null, follow: true, error: "", source: trace, link: "", fields: Object.keys(trace).filter((k) => k !== "schema") };
    runs.set(run.id, run);
    current.set(key, run.id);
    while (runs.size > 24) runs.delete(runs.keys().next().value);
    rewind(run, trace.steps.length, status);
    return run;
  }
  function rewind(run, count, status) {
    if (count < run.steps.length) Object.assign(run, { steps: [], tokens: [], texts: [], selected: null });
    run.follow = true;
    const ended = count === run.source.steps.length;
    for (const step of run.source.steps.slice(run.steps.length, count)) addStep(run, step);
    Object.assign(run, { status: ended ? status : "paused", outputs: ended ? run.source.outputs : [], timing: ended ? run.source.timing : undefined, metrics: ended ? run.source.metrics : undefined });
    draw(run);
  }
  // A run that is known already is shown again where a stage has this key.
  function show(key, run) { runs.set(run.id, run); current.set(key, run.id); draw(run); }
  let recorded = 0;
  const trace = (run) => { const t = { schema: "decoding-trace/1" }; for (const key of run.fields) t[key] = run[key]; return t; };
  function save(run) {
    const url = URL.createObjectURL(new Blob([JSON.stringify(trace(run))], { type: "application/json" }));
    const a = el("a", { href: url, download: run.strategy + "-seed" + run.seed + ".json" });
    document.body.append(a); a.click(); a.remove(); setTimeout(() => URL.revokeObjectURL(url), 5000);
  }
  function plotly() {
    if (!plotlyPromise) plotlyPromise = new Promise((ok, bad) => {
      const script = el("script", { src: window.DP_PLOTLY });
      script.onload = () => ok(window.Plotly); script.onerror = bad; document.head.append(script);
    });
    return plotlyPromise;
  }
  // What Gradio draws later is waited for, however long; whoever clicks or types meanwhile has other plans.
  function whenThere(find, act) {
    const others = new AbortController();
    for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, () => others.abort(), { capture: true, signal: others.signal });
    const look = () => {
      const found = find();
      if (found) { others.abort(); act(found); } else if (!others.signal.aborted) requestAnimationFrame(look);
    };
    look();
  }
  const colours = () => { const s = getComputedStyle(document.querySelector(".gradio-container")); return Object.fromEntries(["bg", "text", "muted", "line", "accent", "good", "bad", "warn", "violet"].map((n) => [n, s.getPropertyValue("--dp-" + n).trim()])); };
  const table = (columns, rows) => el("div", { class: "dp-scroll", tabindex: 0, role: "region", "aria-label": columns.join(", ") }, el("table", { class: "dp-table" },
    el("thead", {}, el("tr", {}, columns.map((c) => el("th", { scope: "col" }, c)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", { class: typeof cell === "number" ? "num" : null }, cell)))))));
  return { register: (name, spec) => views.set(name, spec), mount, receive, connect: (f) => { bus = f; }, connected: () => bus !== null, whenThere, el, svg, piece, visible, percent, prob, select, save, trace, plotly, colours, table, runs, show, showTrace, rewind,
    runId: (strategy) => current.get(strategy) || "", stages };
})();
