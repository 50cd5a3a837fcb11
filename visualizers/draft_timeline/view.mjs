import { el, svg, table } from "../shared/dom.mjs";
import { percent, piece, visible } from "../shared/text.mjs";

const GLYPH = {
  accepted: "✓",
  rejected: "✗",
  unverified: "?",
  resampled: "↻",
  bonus: "+",
  target: "→",
};
const WORD = {
  accepted: "accepted",
  rejected: "rejected",
  unverified: "not judged: it follows a rejected token",
  resampled: "resampled from max(0, p − q)",
  bonus: "bonus: the whole draft was right, so the same pass gives one more",
  target: "the target's own token",
};
const LEGEND = {
  accepted: "accepted",
  rejected: "rejected",
  unverified: "not judged",
  resampled: "resampled",
  bonus: "bonus",
  target: "target's choice",
};
const DRAFTER = {
  assistant: "a draft model",
  prompt_lookup: "copying from the text",
  early_exit: "the model's own first layers",
  universal: "a draft model with another tokenizer",
};
const fixed = (x, digits = 3) => (x === null || x === undefined ? "–" : x.toFixed(digits));
const weight = (run) => run.config.assistant_ensemble_weight ?? null;
// Of a mixture of both models w·p + (1 − w)·q the ratio to q is 1 − w + w·p/q.
const ratio = (run, t) =>
  t.q > 0
    ? Math.min(1, weight(run) === null ? t.p / t.q : 1 - weight(run) + (weight(run) * t.p) / t.q)
    : null;
const rule = (run) =>
  weight(run) === null
    ? "min(1, p/q)"
    : `min(1, ${fixed(1 - weight(run), 2)} + ${fixed(weight(run), 2)}·p/q)`;
const seconds = (s) => (s < 1 ? `${(1000 * s).toFixed(0)} ms` : `${s.toFixed(2)} s`);
const BAR = 16,
  HIGH = 96;

function facts(run, token, kind) {
  const name = `“${piece(run, token.token_id)}”: ${kind === "target" && weight(run) !== null ? "the mixture's own token" : WORD[kind]}`;
  if (token.p === undefined) return name;
  let text = `${name}. Target p = ${fixed(token.p)}${token.q === null ? "" : `, draft q = ${fixed(token.q)}`}`;
  if (token.u !== null && ratio(run, token) !== null)
    text += `, kept if u ≤ ${rule(run)} = ${fixed(ratio(run, token))}; u = ${fixed(token.u)}`;
  else if (weight(run) !== null && token.q !== null)
    text += `, mixture ${fixed(weight(run) * token.p + (1 - weight(run)) * token.q)}`;
  return text;
}
function bars(run, token) {
  if (token.p === undefined) return null;
  const mark =
    token.u === null || ratio(run, token) === null
      ? null
      : el("i", { class: "u", style: { left: `${100 * Math.min(1, token.u)}%` } });
  return el(
    "span",
    { class: "pq", "aria-hidden": "true" },
    el("span", { class: "p" }, el("i", { style: { width: `${100 * token.p}%` } }), mark),
    token.q === null
      ? null
      : el("span", { class: "q" }, el("i", { style: { width: `${100 * token.q}%` } })),
  );
}
const emitted = (step) => step.detail.tokens.filter((t) => t.status === "accepted").length;

export const draftTimeline = {
  title: "Accepted and rejected, round by round",
  empty:
    "One row a round: the drafted tokens, which of them the target kept, and the token it added.",
  wide: true,
  mount(root, ctx) {
    const badge = el("div", { class: "dt-badge", role: "status" });
    const legend = el(
      "div",
      { class: "dp-legend dt-legend" },
      Object.keys(LEGEND).map((k) =>
        el("span", {}, el("b", { class: `dt-tile k-${k}` }, GLYPH[k]), ` ${LEGEND[k]}`),
      ),
      el("span", {}, el("b", { class: "dt-key p" }), " target p"),
      el("span", {}, el("b", { class: "dt-key q" }), " draft q"),
      el("span", {}, el("b", { class: "dt-key u" }), " u"),
    );
    const readout = el("p", { class: "dp-note dt-readout", "aria-live": "polite" });
    const rows = el("div", { class: "dt-rows", role: "list", "aria-label": "Rounds" });
    const round = el("div", { class: "dt-round" });
    const chart = svg("svg", { height: HIGH + 22, role: "img" }),
      bars1 = svg("g"),
      line = svg("polyline", { class: "dt-line" });
    chart.append(bars1, line);
    const lengths = el(
      "figure",
      { class: "dt-fig" },
      el(
        "figcaption",
        {},
        "Per round: asked (outline), drafted (light), accepted (solid); line: tokens per target pass so far",
      ),
      el(
        "div",
        {
          class: "dp-scroll",
          tabindex: 0,
          role: "region",
          "aria-label": "Draft length over rounds",
        },
        chart,
      ),
    );
    const places = el("figure", { class: "dt-fig" }),
      cost = el("div", { class: "dt-cost" });
    const tableBody = el("div", {});
    const more = el(
      "details",
      {
        class: "dt-more",
        ontoggle: () => {
          if (more.open && shown) tableBody.replaceChildren(tableOf(shown));
        },
      },
      el("summary", {}, "Table of every drafted token"),
      tableBody,
    );
    root.append(
      badge,
      legend,
      rows,
      readout,
      round,
      el("div", { class: "dt-figs" }, lengths, places),
      cost,
      more,
    );
    let sum, nodes, shown, marked;
    function reset() {
      sum = {
        rounds: 0,
        tokens: 0,
        drafted: 0,
        accepted: 0,
        judged: 0,
        draftForwards: 0,
        draftS: 0,
        verifyS: 0,
        at: [],
        line: [],
        top: 1,
      };
      nodes = [];
      shown = null;
      marked = -1;
      rows.replaceChildren();
      bars1.replaceChildren();
      line.setAttribute("points", "");
      for (const box of [badge, round, places, cost, tableBody]) box.replaceChildren();
      readout.textContent = "";
      badge.className = "dt-badge";
    }
    reset();

    function tile(run, step, token, kind) {
      const say = facts(run, token, kind),
        show = () => {
          readout.textContent = say;
        };
      return el(
        "button",
        {
          type: "button",
          class: `dt-tile k-${kind}`,
          "aria-label": say,
          title: say,
          onfocus: show,
          onmouseenter: show,
          onclick: () => ctx.select(step.index),
        },
        el("span", { class: "t" }, piece(run, token.token_id)),
        el("span", { class: "g", "aria-hidden": "true" }, GLYPH[kind]),
        bars(run, token),
      );
    }
    function addRow(run, step) {
      const d = step.detail,
        ended = d.final_source === "ended",
        tiles = d.tokens.map((t) => tile(run, step, t, t.status));
      if (!ended) {
        const top = d.residual.find(([id]) => id === d.final_token_id),
          kept = emitted(step);
        tiles.splice(
          d.tokens.findIndex((t) => t.status === "rejected") === -1 ? kept : kept + 1,
          0,
          tile(
            run,
            step,
            { token_id: d.final_token_id, p: top ? top[1] : undefined, q: null, u: null },
            d.final_source,
          ),
        );
      }
      const row = el(
        "div",
        { class: "dt-row", role: "listitem" },
        el(
          "button",
          {
            type: "button",
            class: "dt-no",
            "aria-label": `Round ${step.index + 1}, ${step.emit.length} tokens`,
            onclick: () => ctx.select(step.index),
          },
          String(step.index + 1),
        ),
        el(
          "div",
          { class: "dt-lane" },
          tiles,
          d.tokens.length ? null : el("span", { class: "dt-none" }, "no draft"),
        ),
        el(
          "span",
          { class: "dt-sum" },
          d.tokens.length ? `${emitted(step)} of ${d.tokens.length}` : "–",
          " → ",
          el("b", {}, `+${step.emit.length}`),
        ),
      );
      nodes.push(row);
      rows.append(row);
    }
    function addSums(step) {
      const d = step.detail,
        kept = emitted(step);
      sum.rounds += 1;
      sum.tokens += step.emit.length;
      sum.drafted += d.tokens.length;
      sum.accepted += kept;
      sum.draftForwards += d.draft_forwards;
      sum.draftS += d.draft_s;
      sum.verifyS += d.verify_s;
      d.tokens.forEach((t, i) => {
        if (t.status === "unverified") return;
        const at = sum.at[i] || (sum.at[i] = [0, 0]);
        at[1] += 1;
        sum.judged += 1;
        if (t.status === "accepted") at[0] += 1;
      });
      sum.line.push(sum.tokens / sum.rounds);
      sum.top = Math.max(sum.top, d.requested_length, d.tokens.length, sum.line.at(-1));
      const x = (sum.rounds - 1) * BAR,
        g = svg(
          "g",
          { class: "dt-bar", onclick: () => ctx.select(step.index) },
          svg("title", {}, `Round ${sum.rounds}: ${d.length_reason}`),
        );
      g.append(
        ...[
          ["asked", d.requested_length],
          ["drafted", d.tokens.length],
          ["kept", kept],
        ].map(([name, value]) => {
          const r = svg("rect", { class: name, x: x + 2, width: BAR - 4 });
          r.value = value;
          return r;
        }),
      );
      bars1.append(g);
    }
    function scaleChart() {
      const unit = HIGH / sum.top;
      for (const rect of bars1.querySelectorAll("rect")) {
        const h = rect.value * unit;
        rect.setAttribute("y", 8 + HIGH - h);
        rect.setAttribute("height", h);
      }
      line.setAttribute(
        "points",
        sum.line.map((v, i) => `${i * BAR + BAR / 2},${8 + HIGH - v * unit}`).join(" "),
      );
      chart.setAttribute("width", Math.max(120, sum.rounds * BAR + 4));
      chart.setAttribute(
        "aria-label",
        `${sum.rounds} rounds, ${(sum.tokens / sum.rounds).toFixed(2)} tokens per target pass`,
      );
    }
    let scaled = 0;
    function figures(run) {
      if (sum.top !== scaled || sum.rounds) {
        scaled = sum.top;
        scaleChart();
      }
      places.replaceChildren(
        el("figcaption", {}, "Accepted, by place in the draft"),
        el(
          "div",
          { class: "dt-places" },
          sum.at
            .slice(0, 24)
            .map(([a, n], i) =>
              el(
                "span",
                { class: "dt-place", title: `Place ${i + 1}: ${a} of ${n} judged tokens accepted` },
                el("span", { class: "v" }, `${Math.round((100 * a) / n)}%`),
                el("span", { class: "b" }, el("i", { style: { height: `${(100 * a) / n}%` } })),
                el("span", { class: "n" }, String(i + 1)),
              ),
            ),
        ),
      );
      cost.replaceChildren(...costOf(run, sum));
    }
    function showRound(run, step) {
      const d = step.detail,
        parts = [
          el(
            "p",
            { class: "dp-note" },
            el("b", {}, `Round ${step.index + 1}. `),
            `Drafted by ${DRAFTER[d.drafter] || "a drafter"}${d.exit_layer ? ` (${d.exit_layer} of ${run.model.layers})` : ""}: ${d.length_reason}. ${d.draft_forwards} draft passes in ${seconds(d.draft_s)}, one target pass in ${seconds(d.verify_s)}.`,
          ),
        ];
      if (d.match) parts.push(arc(run, step));
      if (d.drafter === "universal" && d.draft_own.length) parts.push(rails(run, d));
      if (d.residual.length)
        parts.push(
          el(
            "p",
            { class: "dp-note" },
            (d.final_source === "resampled"
              ? "After the rejection the token came from max(0, p − q): "
              : "The last token came from: ") +
              d.residual
                .slice(0, 6)
                .map(
                  ([id, p]) =>
                    `${(id === d.final_token_id ? "▸" : "") + piece(run, id)} ${percent(p)}`,
                )
                .join(",  "),
          ),
        );
      round.replaceChildren(...parts);
      const join = round.querySelector(".dt-arc");
      if (join) bend(join);
    }
    reset();
    return {
      update(run, from) {
        shown = run;
        const fresh = run.steps.slice(from).filter((s) => s.detail && s.detail.kind === "draft");
        for (const step of fresh) {
          addRow(run, step);
          addSums(step);
        }
        if (fresh.length) {
          figures(run);
          if (run.follow) rows.scrollTop = rows.scrollHeight;
        }
        if (fresh.length || run.status !== "running") {
          badgeOf(badge, run);
          if (!fresh.length && sum.rounds) cost.replaceChildren(...costOf(run, sum));
        }
        if (more.open && fresh.length) tableBody.replaceChildren(tableOf(run));
      },
      select(run, index) {
        if (index === marked || !nodes[index]) return;
        marked = index;
        nodes.forEach((row, i) => {
          row.classList.toggle("sel", i === index);
          row.classList.toggle("later", i > index);
        });
        const row = nodes[index],
          box = rows;
        if (
          row.offsetTop < box.scrollTop ||
          row.offsetTop + row.offsetHeight > box.scrollTop + box.clientHeight
        )
          box.scrollTop = row.offsetTop - box.clientHeight / 2;
        showRound(run, run.steps[index]);
      },
      clear: reset,
    };
  },
};

// Prompt lookup: the n-gram it found and the place it was looked up for, joined by an arc.
function arc(run, step) {
  const [size, start, copied] = step.detail.match,
    text = [
      ...run.prompt_ids,
      ...(run.outputs[0] ? run.outputs[0].token_ids : run.tokens[0].map((t) => t.id)).slice(
        0,
        step.keep,
      ),
    ];
  const tail = text.length - size,
    from = Math.max(0, start - 3),
    until = Math.min(tail, start + size + copied + 2),
    after = Math.max(until, tail - 4);
  const tok = (i) =>
    el(
      "span",
      {
        class:
          i >= start && i < start + size
            ? "src"
            : i >= start + size && i < start + size + copied
              ? "copy"
              : i >= tail
                ? "dst"
                : null,
      },
      piece(run, text[i]),
    );
  const range = (a, b) => Array.from({ length: Math.max(0, b - a) }, (_, i) => tok(a + i));
  return el(
    "div",
    {
      class: "dt-arc",
      role: "img",
      "aria-label": `The last ${size} tokens were found at position ${start}; the ${copied} tokens after it were copied`,
    },
    svg("svg", { "aria-hidden": "true" }, svg("path", { fill: "none" })),
    el(
      "div",
      { class: "dt-text" },
      from ? el("span", { class: "gap" }, "…") : null,
      range(from, until),
      after > until ? el("span", { class: "gap" }, " … ") : null,
      range(after, text.length),
      el("span", { class: "gap" }, " ⟵ next"),
    ),
    el(
      "p",
      { class: "dp-note" },
      `The last ${size}${size > 1 ? " tokens were" : " token was"} seen at position ${start} (solid); the ${copied} that followed there (dashed) became the draft.`,
    ),
  );
}
function bend(box) {
  const a = box.querySelector(".src"),
    b = box.querySelector(".dst"),
    picture = box.querySelector("svg");
  if (!a || !b || !box.isConnected) return;
  const base = box.getBoundingClientRect(),
    ra = a.getBoundingClientRect(),
    rb = b.getBoundingClientRect(),
    x1 = ra.left + ra.width / 2 - base.left,
    x2 = rb.left + rb.width / 2 - base.left,
    y1 = ra.top - base.top,
    y2 = rb.top - base.top;
  picture.firstChild.setAttribute(
    "d",
    `M${x2},${y2} C${x2},${Math.min(y1, y2) - 26} ${x1},${Math.min(y1, y2) - 26} ${x1},${y1}`,
  );
}
// Universal: the draft's own tokens above, what they became for the target below, character under character.
function rails(run, d) {
  const rail = (name, pieces, cls) =>
    el(
      "div",
      { class: "dt-rail" },
      el("span", { class: "who" }, name),
      el(
        "span",
        { class: `cells ${cls}` },
        pieces.map((p) => el("span", {}, visible(p).replace(/ /g, "·"))),
      ),
    );
  const own = rail("draft tokens", d.draft_own, "own"),
    ours = rail(
      "target tokens",
      d.reencoded.map((id) => run.pieces[id] ?? `#${id}`),
      "ours",
    );
  return el(
    "div",
    {
      class: "dt-rails dp-scroll",
      tabindex: 0,
      role: "region",
      "aria-label": "Draft tokens and target tokens",
    },
    own,
    ours,
    el(
      "p",
      { class: "dp-note" },
      d.lost
        ? `Lost in re-encoding: “${visible(d.lost)}”.`
        : "Nothing was lost between the two tokenizers.",
    ),
  );
}

const reportOf = (run) => {
  const last = run.steps.at(-1);
  return last?.detail?.report || null;
};
function badgeOf(box, run) {
  const r = reportOf(run);
  box.className = "dt-badge";
  box.replaceChildren();
  if (!r) return;
  const tell = (kind, mark, title, text) => {
    box.className = `dt-badge ${kind}`;
    box.append(el("b", {}, `${mark} ${title}`), el("span", {}, text));
  };
  const measured = (lead) =>
    lead +
    r.distributions
      .map(
        (x) =>
          `${x.length === 1 ? "First token" : "First two tokens"}: ${x.runs} runs, χ² = ${x.chi_square.toFixed(1)} on ${x.degrees} degrees of freedom, p = ${x.p_value.toPrecision(2)}`,
      )
      .join(". ") +
    (r.distributions.length ? "." : "");
  if (weight(run) !== null)
    tell(
      "warn",
      "≠",
      "Lossy by design",
      measured(
        `Drafts were judged by ${fixed(weight(run), 2)}·p + ${fixed(1 - weight(run), 2)}·q, so the text need not be the target's own. `,
      ),
    );
  else if (r.checked && !r.parting)
    tell(
      "good",
      "✓",
      "Lossless",
      `All ${r.checked} tokens are the target's own greedy choice: checked with one forward pass over the finished text (${seconds(r.check_s)}).${r.plain_identical ? " The plain run made the same tokens." : ""}`,
    );
  else if (r.parting) {
    const p = r.parting;
    tell(
      p.near_tie ? "warn" : "bad",
      p.near_tie ? "≈" : "✗",
      p.near_tie ? "Identical up to a near tie" : "Not the target's own text",
      `Token ${p.position + 1} is “${piece(run, p.emitted_id)}” (logit ${fixed(p.emitted_logit, 4)}); the target prefers “${piece(run, p.expected_id)}” (${fixed(p.expected_logit, 4)}), a gap of ${p.gap.toPrecision(2)}${p.near_tie ? ": within floating-point rounding." : "."}`,
    );
  } else if (r.distributions.length) {
    const worst = Math.min(...r.distributions.map((x) => x.p_value));
    tell(
      worst > 0.001 ? "good" : "bad",
      worst > 0.001 ? "✓" : "✗",
      worst > 0.001 ? "Same distribution" : "Distributions differ",
      measured(""),
    );
  } else
    tell(
      "",
      "ⓘ",
      "Sampled",
      "By construction this is the target's distribution; set “Same distribution?” to measure it with many short runs.",
    );
}
function costOf(run, sum) {
  const r = reportOf(run),
    last = run.steps.at(-1),
    per = sum.tokens / sum.rounds,
    alpha = sum.judged ? sum.accepted / sum.judged : 0,
    spent = last.elapsed_s;
  const speed = sum.tokens / Math.max(spent, 1e-9),
    gamma = sum.drafted / sum.rounds,
    relative = sum.verifyS ? sum.draftS / sum.verifyS : 0;
  const expected =
    (alpha > 0.9999 ? gamma + 1 : (1 - alpha ** (gamma + 1)) / (1 - alpha)) / (1 + relative);
  const cells = [
    ["tokens per target pass", per.toFixed(2)],
    ["target passes", sum.rounds],
    ["draft passes", sum.draftForwards],
    ["accepted per round", (sum.accepted / sum.rounds).toFixed(2)],
    ["acceptance rate", sum.judged ? percent(alpha) : "–"],
    ["drafting", seconds(sum.draftS)],
    ["verifying", seconds(sum.verifyS)],
    ["tokens per second", speed.toFixed(1)],
  ];
  const out = [
    el(
      "div",
      { class: "dp-costs" },
      cells.map(([k, v]) => el("span", {}, `${k} `, el("b", {}, String(v)))),
    ),
  ];
  if (!r?.plain_tokens) {
    out.push(
      el(
        "p",
        { class: "dp-note" },
        `The papers' formula expects ${expected.toFixed(2)} × plain decoding from this acceptance rate and cost ratio (a draft costs ${percent(relative)} of a target pass). Turn on “Measure plain decoding” to compare with the real thing.`,
      ),
    );
    return out;
  }
  const plain = r.plain_tokens / Math.max(r.plain_s, 1e-9),
    gain = speed / plain;
  out.push(
    el(
      "p",
      { class: "dp-note" },
      "Plain decoding of the same prompt made ",
      el("b", {}, `${plain.toFixed(1)} tokens per second`),
      "; measured speed-up ",
      el("b", {}, `${gain.toFixed(2)} ×`),
      `, expected by the papers' formula ${expected.toFixed(2)} × (acceptance ${percent(alpha)}, ${gamma.toFixed(1)} tokens a draft, a draft costs ${percent(relative)} of a target pass).`,
    ),
  );
  if (gain < 1)
    out.push(
      el(
        "p",
        { class: "dp-note dt-slow" },
        `⚠ Slower than plain decoding on this machine: drafting took ${percent(sum.draftS / (sum.draftS + sum.verifyS))} of the time and a target pass gave ${per.toFixed(2)} tokens${alpha < 0.5 ? ", because most guesses were wrong." : `, and one target pass over several tokens costs more than one over a single token (${seconds(sum.verifyS / sum.rounds)} against ${seconds(r.plain_s / r.plain_tokens)}).`}`,
      ),
    );
  return out;
}
function tableOf(run) {
  const rows = [];
  for (const step of run.steps) {
    if (step.detail?.kind !== "draft") continue;
    step.detail.tokens.forEach((t, i) =>
      rows.push([
        step.index + 1,
        i + 1,
        piece(run, t.token_id),
        fixed(t.p),
        fixed(t.q),
        fixed(ratio(run, t)),
        fixed(t.u),
        t.status,
      ]),
    );
    if (step.detail.final_source !== "ended")
      rows.push([
        step.index + 1,
        "",
        piece(run, step.detail.final_token_id),
        "",
        "",
        "",
        "",
        step.detail.final_source,
      ]);
  }
  return table(["round", "place", "token", "p", "q", "kept if u ≤", "u", "status"], rows);
}
