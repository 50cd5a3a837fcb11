// The tree a beam search walked: every candidate of every step, drawn as it was decided and never re-derived.
(() => {
  const { el, svg, piece, percent, prob } = DP;
  const COLUMN = 104, ROW = 30, WIDE = 86, HIGH = 22, LEFT = 64, TOP = 26, GAP = 14;
  const MARK = { finished: "■ ", finished_worse: "□ ", blocked: "⊘ " };
  const SAY = { kept: "kept", pruned: "dropped", finished: "finished", finished_worse: "finished, but worse than the others", blocked: "ended without counting" };
  const signed = (x, digits = 3) => x.toFixed(digits).replace("-", "−");
  const short = (text, room) => text.length > room ? text.slice(0, room - 1) + "…" : text;

  DP.register("beam_tree", { title: "Beam tree", empty: "Every candidate of every step as a tree: what was kept, what was dropped and why, which texts finished, and the winner.", wide: true, mount(root, ctx) {
    const lines = svg("g", { class: "bt-lines" }), boxes = svg("g", { class: "bt-boxes" }), frame = svg("g", { class: "bt-frame" });
    const canvas = svg("svg", { class: "bt-svg", role: "group", "aria-label": "Beam tree: arrow keys go from node to node" }, frame, lines, boxes);
    const scroll = el("div", { class: "bt-scroll" }, canvas);
    const facts = el("div", { class: "bt-facts", "aria-live": "polite" });
    const greedy = el("p", { class: "dp-note bt-greedy" });
    const tableBody = el("div", {});
    const more = el("details", { class: "bt-more", ontoggle: () => { if (more.open && run) tableBody.replaceChildren(tableOf(run)); } }, el("summary", {}, "Table of every candidate"), tableBody);
    const button = (text, title, act, pressed) => el("button", { type: "button", class: "dp-btn", title, "aria-label": title, "aria-pressed": pressed, onclick: act }, text);
    const fold = button("Hide dropped", "Hide or show the dropped candidates", () => { folded = !folded; arrange(); }, "false");
    const follow = button("Follow", "Keep the latest step in view", () => { following = !following; mark(follow, following); if (following) toEnd(); }, "true");
    const tools = el("div", { class: "dp-row bt-tools" }, fold, follow,
      button("−", "Zoom out", () => zoom(1 / 1.25)), button("+", "Zoom in", () => zoom(1.25)), button("Fit", "Fit the whole tree", fit),
      button("SVG", "Download as SVG", () => download("svg")), button("PNG", "Download as PNG", () => download("png")));
    const legend = el("div", { class: "dp-legend" }, el("span", { class: "bt-key kept" }, "kept"), el("span", { class: "bt-key ghost" }, "dropped"), el("span", { class: "bt-key done" }, "■ finished"), el("span", { class: "bt-key ghost" }, "□ finished worse"), el("span", { class: "bt-key ghost" }, "⊘ ended, not counted"), el("span", { class: "bt-key best" }, "★ best text so far"));
    root.append(tools, scroll, legend, facts, greedy, more);
    let run = null, nodes, order, depth, groups, best, chosen, located, folded, following, scale;

    function reset() {
      nodes = new Map(); order = []; depth = 0; groups = []; best = []; chosen = null; located = 0; following = true; scale = scale || 1;
      if (folded === undefined) folded = innerWidth < 700;
      for (const part of [lines, boxes, frame, facts, tableBody]) part.replaceChildren();
      greedy.textContent = ""; mark(follow, true);
    }
    const mark = (control, on) => control.setAttribute("aria-pressed", String(on));

    // Rows: the lanes of each group, then what it dropped; a child takes its parent's lane where it can.
    function place(pool, column) {
      const columns = new Map();
      for (const data of pool) { if (!columns.has(data.group)) columns.set(data.group, []); columns.get(data.group).push(data); }
      for (const [number, members] of columns) {
        const group = groups[number] || (groups[number] = { lanes: Math.max(1, Math.floor(run.config.num_beams / (run.config.num_beam_groups || 1))), dropped: 0 });
        const free = new Set(Array.from({ length: group.lanes }, (_, i) => i)), rows = new Map(), later = [];
        const laneOf = (data) => { const parent = nodes.get(data.parent_id); return parent ? parent.row : 0; };
        const take = (data, lane) => { rows.set(data, lane); free.delete(lane); };
        for (const fate of ["kept", "finished"]) {
          for (const data of members.filter((m) => m.fate === fate)) free.has(laneOf(data)) ? take(data, laneOf(data)) : later.push(data);
          for (const data of later.splice(0)) { const near = [...free].sort((a, b) => Math.abs(a - laneOf(data)) - Math.abs(b - laneOf(data)))[0]; if (near !== undefined) take(data, near); }
        }
        let below = 0;
        for (const data of members) { const lane = rows.get(data); add(data, column, lane === undefined ? group.lanes + below++ : lane, lane === undefined); }
        group.dropped = Math.max(group.dropped, below);
      }
    }
    function add(data, column, row, low) {
      const node = { data, column, row, low, parent: nodes.get(data.parent_id) || null, children: [], length: column + 1 };
      if (node.parent) node.parent.children.push(node);
      nodes.set(data.node_id, node); order.push(node);
      const ghost = data.fate !== "kept" && data.fate !== "finished";
      node.line = svg("path", { class: "bt-line" + (ghost ? " ghost" : ""), fill: "none" });
      node.text = svg("text", { x: 8, y: 15 });
      label(node);
      node.box = svg("g", { class: "bt-node " + data.fate + (ghost ? " ghost" : ""), role: "button", tabindex: -1, "aria-label": say(node) },
        svg("rect", { class: "bt-rect", width: WIDE, height: HIGH, rx: 6 }), svg("rect", { class: "bt-prob", x: 4, y: HIGH - 4, height: 2.5, width: Math.max(1, (WIDE - 8) * prob(data.logprob)) }), node.text);
      node.box.dpNode = node;
      lines.append(node.line); boxes.append(node.box);
    }
    function label(node, star = "") {
      const before = star + (MARK[node.data.fate] || "");
      node.text.textContent = before + short(piece(run, node.data.token_id), 10 - before.length);
    }
    function say(node) {
      const d = node.data;
      return "“" + piece(run, d.token_id) + "”, step " + (node.column + 1) + ", " + SAY[d.fate] + ", probability " + percent(prob(d.logprob)) + ", sum " + signed(d.sum_logprobs) + ", score " + signed(d.score) + ", rank " + (d.rank + 1);
    }
    const offset = (number) => groups.slice(0, number).reduce((sum, g) => sum + (g.lanes + (folded ? 0 : g.dropped)) * ROW + GAP, TOP);
    const x = (node) => LEFT + node.column * COLUMN;
    function arrange() {
      mark(fold, folded); fold.textContent = folded ? "Show dropped" : "Hide dropped";
      canvas.classList.toggle("folded", folded);
      for (const node of order) locate(node);
      located = order.length;
      size();
    }
    function locate(node) {
      const y = offset(node.data.group) + node.row * ROW;
      node.y = y;
      node.hidden = folded && node.low;
      node.box.setAttribute("transform", "translate(" + x(node) + " " + y + ")");
      const from = node.parent ? [x(node.parent) + WIDE, node.parent.y + HIGH / 2] : [LEFT - 18, offset(node.data.group) + HIGH / 2];
      const to = [x(node), y + HIGH / 2], half = (to[0] - from[0]) / 2;
      node.line.setAttribute("d", "M" + from + " C" + [from[0] + half, from[1]] + " " + [to[0] - half, to[1]] + " " + to);
      node.box.classList.toggle("away", node.hidden); node.line.classList.toggle("away", node.hidden);
    }
    function size() {
      const wide = LEFT + depth * COLUMN + 8, high = offset(groups.length) + 4;
      canvas.setAttribute("viewBox", "0 0 " + wide + " " + high);
      canvas.setAttribute("width", wide * scale); canvas.setAttribute("height", high * scale);
      const marks = [];
      groups.forEach((g, i) => {
        const top = offset(i), lanes = g.lanes * ROW;
        marks.push(svg("rect", { class: "bt-band", x: LEFT - 8, y: top - 4, width: wide - LEFT + 4, height: lanes, rx: 6 }), svg("text", { x: 4, y: top + 15 }, groups.length > 1 ? "group " + (i + 1) : "prompt"));
        if (!folded && g.dropped) marks.push(svg("text", { x: 4, y: top + lanes + 15 }, "dropped"));
      });
      for (let i = 0; i < depth; i++) marks.push(svg("text", { x: LEFT + i * COLUMN, y: 14 }, i + 1));
      frame.replaceChildren(...marks);
    }
    function zoom(factor) { scale = Math.max(0.25, Math.min(2.5, scale * factor)); size(); if (following) toEnd(); }
    function fit() { scale = Math.max(0.25, Math.min(1.5, scroll.clientWidth / (LEFT + depth * COLUMN + 8))); size(); scroll.scrollLeft = 0; }
    let own = 0;
    function toEnd() { own = performance.now(); scroll.scrollLeft = scroll.scrollWidth; }

    const path = (node) => { const list = []; for (let at = node; at; at = at.parent) list.unshift(at); return list; };
    const textOf = (node) => path(node).map((n) => run.pieces[n.data.token_id] ?? "#" + n.data.token_id).join("");
    // The best text so far is the winner, or the leader of the last pool, or a finished text that beats it.
    function showBest() {
      const step = run.steps[run.steps.length - 1], detail = step.detail;
      const kept = detail.pool.filter((d) => d.fate === "kept"), leader = (kept.length ? kept : detail.pool).reduce((a, b) => a.sum_logprobs >= b.sum_logprobs ? a : b);
      const top = detail.heap[0], id = detail.winner_node_id ?? (top && top.score >= leader.score ? top.node_id : leader.node_id);
      for (const node of best) { node.box.classList.remove("best", "tip"); node.line.classList.remove("best"); label(node); }
      best = path(nodes.get(id));
      for (const node of best) { node.box.classList.add("best"); node.line.classList.add("best"); lines.append(node.line); }
      const tip = best[best.length - 1];
      tip.box.classList.add("tip"); label(tip, "★ ");
      canvas.classList.toggle("ended", detail.stopping);
    }
    function describe(node) {
      const d = node.data, penalty = run.config.length_penalty, fact = (name, value) => value === null ? null : el("span", {}, el("span", {}, name + " "), el("b", {}, value));
      const why = d.fate === "pruned" && d.margin <= 0 ? "It missed the cut by " + signed(-d.margin) + "." : d.fate === "kept" ? (d.margin > 0 ? "It made the cut by " + signed(d.margin) + "." : "It is the last that made the cut.") : "";
      const charged = d.penalised_by.length ? "group " + d.penalised_by.map((g) => g + 1).join(", ") + " took it first: −" + d.diversity_penalty.toFixed(2) : null;
      facts.replaceChildren(el("p", { class: "bt-title" }, el("b", {}, piece(run, d.token_id)), " at step " + (node.column + 1) + ": " + SAY[d.fate] + ". " + why + " " + d.reason),
        el("div", { class: "dp-costs" }, fact("p", percent(prob(d.logprob))), fact("log p", signed(d.logprob)), fact("sum", signed(d.sum_logprobs)),
          fact("score", signed(d.sum_logprobs) + " ÷ " + node.length + "^" + penalty + " = " + signed(d.score)), fact("rank", d.rank + 1 + " of " + siblings(node).length), fact("margin", signed(d.margin)), fact("drawn as", d.arrival === null ? null : "arrival " + d.arrival.toPrecision(3)), fact("diversity", charged)),
        el("p", { class: "bt-text" }, el("span", {}, "Text: "), el("q", {}, textOf(node))));
    }
    const siblings = (node) => order.filter((n) => n.column === node.column && n.data.group === node.data.group);
    function choose(node, focus) {
      if (chosen) { chosen.box.classList.remove("sel"); chosen.box.setAttribute("tabindex", -1); }
      chosen = node;
      node.box.classList.add("sel"); node.box.setAttribute("tabindex", 0);
      if (focus) node.box.focus({ preventScroll: false });
      describe(node);
      const rows = siblings(node).map((n) => [(n === node ? "▸ " : "") + (n.data.rank + 1), piece(run, n.data.token_id), n.parent ? piece(run, n.parent.data.token_id) : "prompt", percent(prob(n.data.logprob)), signed(n.data.sum_logprobs), signed(n.data.score), signed(n.data.margin), SAY[n.data.fate] + (n.data.reason ? ": " + n.data.reason : "")]);
      facts.append(el("details", { class: "bt-pool", open: poolOpen, ontoggle: (e) => { poolOpen = e.target.open; } }, el("summary", {}, "The whole pool of this step"), DP.table(["rank", "token", "after", "p", "sum", "score", "margin", "fate"], rows)));
    }
    let poolOpen = false;
    function move(key) {
      const column = siblings(chosen).filter((n) => !n.hidden).sort((a, b) => a.row - b.row), at = column.indexOf(chosen);
      if (key === "ArrowLeft") return chosen.parent;
      if (key === "ArrowRight") return chosen.children.filter((n) => !n.hidden).sort((a, b) => best.includes(b) - best.includes(a) || a.data.rank - b.data.rank)[0];
      if (key === "ArrowUp") return column[at - 1];
      if (key === "ArrowDown") return column[at + 1];
      return null;
    }
    const hit = (event) => { const box = event.target.closest && event.target.closest(".bt-node"); return box ? box.dpNode : null; };
    canvas.addEventListener("click", (e) => { const node = hit(e); if (node) { choose(node, true); ctx.select(node.column); } });
    canvas.addEventListener("mouseover", (e) => { const node = hit(e); if (node && node !== chosen) describe(node); });
    canvas.addEventListener("mouseout", (e) => { if (hit(e) && chosen) choose(chosen); });
    canvas.addEventListener("focusin", (e) => { const node = hit(e); if (node && node !== chosen) choose(node); });
    canvas.addEventListener("keydown", (e) => {
      const node = chosen && (e.key === "Enter" || e.key === " " ? chosen : move(e.key));
      if (!node) return;
      e.preventDefault(); e.stopPropagation(); choose(node, true); ctx.select(node.column);
    });
    let drag = null;
    scroll.addEventListener("pointerdown", (e) => { if (e.pointerType === "mouse" && !hit(e)) { drag = [e.clientX, e.clientY, scroll.scrollLeft, scroll.scrollTop]; } });
    scroll.addEventListener("pointermove", (e) => { if (drag) { scroll.scrollLeft = drag[2] - e.clientX + drag[0]; scroll.scrollTop = drag[3] - e.clientY + drag[1]; } });
    for (const name of ["pointerup", "pointerleave"]) scroll.addEventListener(name, () => { drag = null; });
    scroll.addEventListener("scroll", () => { if (following && performance.now() - own > 200 && scroll.scrollLeft + scroll.clientWidth < scroll.scrollWidth - COLUMN) { following = false; mark(follow, false); } });

    function standalone() {
      const copy = canvas.cloneNode(true), c = DP.colours(), style = getComputedStyle(canvas);
      copy.setAttribute("xmlns", "http://www.w3.org/2000/svg"); copy.setAttribute("font-family", "monospace"); copy.setAttribute("font-size", 12);
      copy.querySelectorAll(".away").forEach((n) => n.remove());
      const own = [...document.styleSheets].flatMap((sheet) => { try { return [...sheet.cssRules]; } catch { return []; } }).filter((r) => r.selectorText && r.selectorText.includes(".bt-")).map((r) => r.cssText).join("\n");
      const rules = own.replace(/var\(--dp-(\w+)\)/g, (_, name) => c[name] || style.getPropertyValue("--dp-" + name).trim());
      copy.prepend(svg("style", {}, rules), svg("rect", { width: "100%", height: "100%", fill: c.bg }));
      copy.setAttribute("class", "bt-svg" + (canvas.classList.contains("ended") ? " ended" : ""));
      return new XMLSerializer().serializeToString(copy);
    }
    function download(kind) {
      const text = standalone(), name = run.strategy + "-tree." + kind, source = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
      const give = (url) => { const a = el("a", { href: url, download: name }); document.body.append(a); a.click(); a.remove(); setTimeout(() => URL.revokeObjectURL(url), 5000); };
      if (kind === "svg") return give(source);
      const image = new Image();
      image.onload = () => { const sheet = el("canvas", { width: image.width * 2, height: image.height * 2 }), pen = sheet.getContext("2d"); pen.scale(2, 2); pen.drawImage(image, 0, 0); sheet.toBlob((blob) => give(URL.createObjectURL(blob)), "image/png"); };
      image.src = source;
    }
    function tableOf(now) {
      const rows = order.map((n) => [n.column + 1, n.data.rank + 1, piece(now, n.data.token_id), n.parent ? piece(now, n.parent.data.token_id) : "prompt", percent(prob(n.data.logprob)), signed(n.data.sum_logprobs), signed(n.data.score), signed(n.data.margin), n.data.group + 1, SAY[n.data.fate] + (n.data.reason ? ": " + n.data.reason : "")]);
      return DP.table(["step", "rank", "token", "after", "p", "sum", "score", "margin", "group", "fate"], rows);
    }
    function sayGreedy(detail) {
      const g = detail.greedy, winner = nodes.get(detail.winner_node_id);
      if (!g) return;
      const sum = winner.data.sum_logprobs, where = g.left_at === null ? "The winner is the greedy path itself." : "The winner leaves the greedy path at token " + (g.left_at + 1) + ": “" + piece(run, path(winner)[g.left_at] ? path(winner)[g.left_at].data.token_id : run.eos_token_ids[0]) + "” instead of “" + (g.token_ids[g.left_at] === undefined ? "the end" : piece(run, g.token_ids[g.left_at])) + "”.";
      greedy.textContent = "Greedy search beside it: log-probability " + signed(g.sum_logprobs) + " over " + g.token_ids.length + " tokens (score " + signed(g.score) + "); the winner " + signed(sum) + " over " + winner.length + " (score " + signed(winner.data.score) + "). " + where;
    }
    reset();
    return { update(now, from) {
      run = now;
      if (from === 0 && order.length) reset();
      const before = groups.map((g) => g.dropped).join();
      for (; depth < now.steps.length; ) { const step = now.steps[depth]; if (!step.detail || step.detail.kind !== "beam") return; place(step.detail.pool, depth); depth++; }
      if (!depth) return;
      if (groups.map((g) => g.dropped).join() !== before) arrange(); else { for (; located < order.length; located++) locate(order[located]); size(); }
      showBest();
      const last = now.steps[now.steps.length - 1].detail;
      if (last.stopping) { sayGreedy(last); if (!chosen) { choose(best[best.length - 1]); } }
      if (!chosen && best.length) describe(best[best.length - 1]);
      if (following) toEnd();
      if (more.open && now.status !== "running") tableBody.replaceChildren(tableOf(now));
    }, select(now, index) {
      if (now !== run) return;
      canvas.querySelectorAll(".now").forEach((n) => n.classList.remove("now"));
      for (const node of order) if (node.column === index) node.box.classList.add("now");
    }, clear: reset };
  } });
})();
