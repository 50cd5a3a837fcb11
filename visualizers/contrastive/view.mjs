// Contrastive search: what every candidate gains by being likely and pays for resembling an earlier token.
import { el, svg, table } from "../shared/dom.mjs";
import { percent, piece } from "../shared/text.mjs";

const LINE = 66,
  NEAR = 1,
  LAST = 4;
const fixed = (x, digits = 3) => x.toFixed(digits).replace("-", "−");

export const contrastive = {
  title: "Candidates: confidence against similarity",
  empty:
    "The k candidates of every step: what each gains for its probability, what it pays for resembling an earlier token, and an arc back to that token.",
  wide: true,
  mount(root, ctx) {
    const line = el("div", { class: "cs-line", role: "img" });
    const scroll = el(
      "div",
      {
        class: "dp-scroll cs-scroll",
        tabindex: 0,
        role: "region",
        "aria-label": "Where the candidates look back to",
      },
      line,
    );
    const arcs = svg("svg", { class: "cs-arcs", height: LINE, "aria-hidden": "true" });
    const bars = el("div", {
      class: "cs-bars",
      role: "list",
      "aria-label": "Candidates, most probable first",
    });
    const legend = el(
      "div",
      { class: "dp-legend cs-legend" },
      el("span", {}, el("i", { class: "cs-key pen" }), " penalty α · cosine, counted against"),
      el("span", {}, el("i", { class: "cs-key conf" }), " confidence (1 − α) · p, counted for"),
      el("span", {}, el("i", { class: "cs-key mark" }), " score: the sum; highest wins"),
    );
    const note = el("p", { class: "dp-note", "aria-live": "polite" });
    const total = el("p", { class: "dp-note cs-total" });
    const chips = el("div", {
      class: "cs-chips",
      role: "group",
      "aria-label": "Steps where similarity changed the choice",
    });
    const tableBody = el("div", {});
    const more = el(
      "details",
      {
        class: "cs-more",
        ontoggle: () => {
          if (more.open && current) tableBody.replaceChildren(tableOf(current));
        },
      },
      el("summary", {}, "Table of every candidate"),
      tableBody,
    );
    root.append(scroll, legend, bars, note, total, chips, more);
    let current = null,
      last = "",
      seen = 0,
      changed = 0,
      paths = [],
      rows = [];
    function reset() {
      last = "";
      seen = changed = 0;
      paths = [];
      rows = [];
      for (const box of [line, bars, chips, tableBody]) box.replaceChildren();
      note.textContent = total.textContent = "";
    }

    // Ids that a candidate's position counts, up to (not including) one step.
    function before(run, index) {
      const ids = run.model.is_encoder_decoder ? [] : run.prompt_ids.slice();
      for (let i = 0; i < index; i++) ids.push(run.steps[i].emit[0]);
      return ids;
    }
    const nameAt = (run, ids, position) => (position < 0 ? "start" : piece(run, ids[position]));

    // The text so far, cut down to the tokens that are looked back to, their neighbours and the end.
    function drawLine(run, detail, ids) {
      const wanted = new Set();
      for (const o of detail.options)
        for (let i = o.position - NEAR; i <= o.position + NEAR; i++) wanted.add(i);
      for (let i = ids.length - LAST; i < ids.length; i++) wanted.add(i);
      const places = [...wanted]
        .filter((i) => i >= (run.model.is_encoder_decoder ? -1 : 0) && i < ids.length)
        .sort((a, b) => a - b);
      const nodes = new Map(),
        items = [];
      let previous = run.model.is_encoder_decoder ? -2 : -1;
      for (const i of places) {
        if (i > previous + 1) items.push(el("span", { class: "gap" }, `⋯${i - previous - 1}`));
        const linked = detail.options.some((o) => o.position === i);
        const node = el(
          "span",
          { class: `tok${linked ? " linked" : ""}`, title: `position ${i}` },
          nameAt(run, ids, i),
        );
        nodes.set(i, node);
        items.push(node);
        previous = i;
      }
      const slot = el(
        "span",
        { class: "tok slot" },
        piece(run, detail.options[detail.chosen].token_id),
      );
      line.replaceChildren(arcs, ...items, slot);
      const middle = (node) => node.offsetLeft + node.offsetWidth / 2,
        end = middle(slot);
      arcs.setAttribute("width", slot.offsetLeft + slot.offsetWidth);
      paths = detail.options.map((o, k) => {
        const start = middle(nodes.get(o.position)),
          high = Math.min(LINE - 6, 14 + Math.abs(end - start) / 5);
        return svg("path", {
          d: `M${end} ${LINE - 1} C${end} ${LINE - high} ${start} ${LINE - high} ${start} ${LINE - 1}`,
          class: k === detail.chosen ? "on" : "",
          fill: "none",
        });
      });
      arcs.replaceChildren(...paths.filter((_, k) => k !== detail.chosen), paths[detail.chosen]);
      scroll.scrollLeft = scroll.scrollWidth;
    }
    function mark(k) {
      paths.forEach((p, i) => p.classList.toggle("hot", i === k));
    }

    // One scale for the whole run: left of zero at most α, right of it at most 1 − α.
    function bar(option, alpha) {
      const at = (x) => 100 * Math.max(0, Math.min(1, x + alpha));
      const span = (from, to, kind) =>
        el("i", {
          class: kind,
          style: {
            left: `${at(Math.min(from, to))}%`,
            width: `${at(Math.max(from, to)) - at(Math.min(from, to))}%`,
          },
        });
      const pays = option.degeneration_penalty,
        gains = option.confidence;
      return el(
        "span",
        { class: "cs-bar", "aria-hidden": "true" },
        span(0, gains, "conf"),
        pays >= 0 ? span(-pays, 0, "pen") : span(gains, gains - pays, "bonus"),
        el("i", { class: "zero", style: { left: `${at(0)}%` } }),
        el("i", { class: "mark", style: { left: `${at(option.score)}%` } }),
      );
    }
    function paint(run, step) {
      const detail = step.detail,
        alpha = run.config.penalty_alpha,
        ids = before(run, step.index),
        winner = detail.options[detail.chosen];
      rows = detail.options.map((o, k) => {
        const cause = nameAt(run, ids, o.position),
          on = k === detail.chosen;
        const say = `“${piece(run, o.token_id)}”${on ? ", chosen" : ""}: confidence ${fixed(o.confidence)}, penalty ${fixed(o.degeneration_penalty)}, score ${fixed(o.score)}, most similar to “${cause}” at position ${o.position}, cosine ${fixed(o.max_cosine)}`;
        return el(
          "div",
          {
            class: `cs-row${on ? " on" : ""}`,
            role: "listitem",
            tabindex: 0,
            "aria-label": say,
            onmouseenter: () => mark(k),
            onmouseleave: () => mark(-1),
            onfocus: () => mark(k),
            onblur: () => mark(-1),
          },
          el("span", { class: "t" }, piece(run, o.token_id)),
          bar(o, alpha),
          el("span", { class: "n" }, fixed(o.score)),
          el(
            "span",
            { class: "why" },
            `p ${percent(o.probability)} · like `,
            el("b", {}, cause),
            ` at ${o.position} · cos ${fixed(o.max_cosine, 2)}`,
            detail.chosen !== 0 && k === 0 ? el("em", {}, " most probable") : null,
          ),
        );
      });
      bars.replaceChildren(...rows);
      drawLine(run, detail, ids);
      line.setAttribute(
        "aria-label",
        `“${piece(run, winner.token_id)}” is most similar to “${nameAt(run, ids, winner.position)}” at position ${winner.position}`,
      );
      note.textContent = detail.chosen
        ? `The most probable token, “${piece(run, detail.options[0].token_id)}”, resembles what was already said and loses ${fixed(detail.options[0].degeneration_penalty)}; “${piece(run, winner.token_id)}” scores higher by ${fixed(winner.score - detail.options[0].score)}.`
        : "The most probable token also has the best score: greedy search would take it too.";
    }
    function tableOf(run) {
      const list = [],
        ids = before(run, run.steps.length);
      for (const step of run.steps)
        step.detail.options.forEach((o, k) =>
          list.push([
            step.index + 1,
            (k === step.detail.chosen ? "▸ " : "") + piece(run, o.token_id),
            percent(o.probability),
            fixed(o.confidence),
            fixed(o.max_cosine),
            fixed(o.degeneration_penalty),
            fixed(o.score),
            nameAt(run, ids, o.position),
            o.position,
          ]),
        );
      return table(
        [
          "step",
          "token",
          "p",
          "confidence",
          "max cosine",
          "penalty",
          "score",
          "similar to",
          "position",
        ],
        list,
      );
    }
    return {
      update(run) {
        current = run;
        for (; seen < run.steps.length; seen++) {
          const step = run.steps[seen],
            d = step.detail;
          if (d?.kind !== "contrastive" || !d.chosen) continue;
          changed++;
          chips.append(
            el(
              "button",
              {
                type: "button",
                class: "cs-chip",
                onclick: () => ctx.select(step.index),
                "aria-label": `Step ${step.index + 1}: “${piece(run, d.options[0].token_id)}” replaced by “${piece(run, d.options[d.chosen].token_id)}”`,
              },
              el("s", {}, piece(run, d.options[0].token_id)),
              " → ",
              el("b", {}, piece(run, d.options[d.chosen].token_id)),
            ),
          );
        }
        const repeats =
          run.metrics && run.metrics.rep_3 !== undefined
            ? `${run.metrics.rep_3 ? percent(run.metrics.rep_3) : "None"} of the output's 3-grams repeat an earlier one. `
            : "";
        const text = `${repeats}Similarity changed the choice in ${changed} of ${seen} steps${changed ? ":" : "."}`;
        if (total.textContent !== text) total.textContent = text;
        if (more.open && run.status !== "running" && tableBody.dataset.rows !== String(seen)) {
          tableBody.dataset.rows = seen;
          tableBody.replaceChildren(tableOf(run));
        }
      },
      select(run, index) {
        const step = run.steps[index],
          key = `${run.id}:${index}`;
        if (key === last || !step.detail || step.detail.kind !== "contrastive") return;
        last = key;
        paint(run, step);
      },
      clear: reset,
    };
  },
};
