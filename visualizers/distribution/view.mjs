// What one step saw: candidates raw against processed, the processors' X-ray, the draw.
import { colours } from "../shared/colours.mjs";
import { el, table } from "../shared/dom.mjs";
import { plotly } from "../shared/plotly.mjs";
import { percent, piece, prob } from "../shared/text.mjs";

const redraw = (paint) => {
  let last = "";
  return {
    update(run) {
      const step = run.steps[run.selected];
      if (step) this.select(run, run.selected);
    },
    select(run, index) {
      const key = `${run.id}:${index}`;
      if (key === last) return;
      last = key;
      paint(run, run.steps[index]);
    },
    clear() {
      last = "";
    },
  };
};

export const candidates = {
  title: "Candidates of this step",
  empty: "The tokens the model considered, with their probability before and after the processors.",
  mount(root, ctx) {
    const bars = el("div", { class: "dp-bars" });
    const note = el("p", { class: "dp-note" });
    root.append(bars, note);
    return redraw((run, step) => {
      const rows = [],
        list = step.candidates,
        forks =
          ctx.fork &&
          !run.model.is_encoder_decoder &&
          !(step.detail && step.detail.kind === "beam");
      const label = (name, on, id) =>
        forks && id !== undefined && !run.eos_token_ids.includes(id)
          ? el(
              "button",
              {
                type: "button",
                class: `t fm-pick${on ? " on" : ""}`,
                title: `Continue from here with ${name}`,
                "aria-label": `Continue from here with ${name}`,
                onclick: () => ctx.fork({ step: step.index, token_id: id }),
              },
              name,
            )
          : el("span", { class: `t${on ? " on" : ""}`, title: name }, name);
      const add = (name, raw, processed, removed, on, id) =>
        rows.push(
          label(name, on, id),
          el(
            "span",
            { class: `b${removed ? " gone" : ""}` },
            el("i", { style: { width: `${100 * (removed ? raw : processed)}%` } }),
            el("u", { style: { width: `${100 * raw}%` } }),
          ),
          el("span", { class: "n" }, percent(removed ? 0 : processed)),
          el("span", { class: "r" }, removed ? `removed by ${removed}` : ""),
        );
      for (const c of list)
        add(
          piece(run, c.token_id),
          prob(c.raw_logprob),
          prob(c.processed_logprob),
          c.removed_by,
          c.token_id === step.emit.at(-1),
          c.token_id,
        );
      const rest = (key) => Math.max(0, 1 - list.reduce((sum, c) => sum + prob(c[key]), 0));
      add("everything else", rest("raw_logprob"), rest("processed_logprob"), null, false);
      bars.replaceChildren(...rows);
      note.textContent = `${step.emit.length > 1 ? `This step wrote ${step.emit.length} tokens; these are the candidates of the last. ` : ""}Filled: probability after the processors. Outline: the model's own. Entropy ${(step.entropy / Math.LN2).toFixed(2)} bits over the whole vocabulary of ${run.model.vocab_size.toLocaleString("en")}.`;
    });
  },
};

export const xray = {
  title: "Processor X-ray",
  empty: "What every processor removed, in the order they ran.",
  mount(root) {
    const body = el("div", {});
    root.append(body);
    return redraw((run, step) => {
      if (!step.stages.length)
        return body.replaceChildren(
          el(
            "p",
            { class: "dp-empty" },
            "No processor was active at this step: the model's own distribution decided.",
          ),
        );
      const rows = step.stages.map((s) => {
        const gone = step.candidates
          .filter((c) => c.removed_by === s.name)
          .slice(0, 4)
          .map((c) => piece(run, c.token_id))
          .join("  ");
        return [
          s.name,
          s.kept.toLocaleString("en"),
          percent(s.kept_mass),
          (s.entropy / Math.LN2).toFixed(2),
          gone || "–",
        ];
      });
      body.replaceChildren(
        table(
          ["processor", "tokens left", "probability kept", "entropy, bits", "removed here"],
          rows,
        ),
      );
    });
  },
};

export const draw = {
  title: "The draw",
  empty: "How chance picked the token: a race in which likely tokens run faster.",
  mount(root) {
    const body = el("div", {});
    root.append(body);
    return redraw((run, step) => {
      const detail =
        step.detail && step.detail.kind === "watermark" ? step.detail.draw : step.detail;
      const racers = detail?.racers ? detail.racers : [];
      if (!racers.length)
        return body.replaceChildren(
          el("p", { class: "dp-empty" }, "Nothing was drawn at this step."),
        );
      body.replaceChildren(
        table(
          ["token", "probability", "noise e", "arrival e ÷ p"],
          racers.map((r, i) => [
            (i ? "" : "▸ ") + piece(run, r.token_id),
            percent(r.probability),
            r.noise.toFixed(3),
            r.arrival.toPrecision(3),
          ]),
        ),
        el(
          "p",
          { class: "dp-note" },
          "Every token draws exponential noise e from the run's seed; the smallest e ÷ p wins. Over many draws a token wins exactly in proportion to p.",
        ),
      );
    });
  },
};

export const chart = {
  title: "Surprise and entropy over the text",
  empty: "A curve of how surprised and how uncertain the model was at each step.",
  wide: true,
  mount(root, ctx) {
    const plot = el("div", {
      class: "dp-plot",
      role: "img",
      "aria-label":
        "Surprise of the emitted token and entropy of the distribution, in bits, over steps",
    });
    root.append(plot);
    let shown = 0,
      ready = false,
      busy = false,
      wanted = null;
    async function paint(run) {
      if (busy) {
        wanted = run;
        return;
      }
      busy = true;
      const Plotly = await plotly(),
        c = colours(),
        steps = run.steps.filter((s) => s.sequence === 0);
      const surprise = steps.map((s) => {
        const x = s.candidates.find((k) => k.token_id === s.emit.at(-1));
        return x && x.raw_logprob !== null ? -x.raw_logprob / Math.LN2 : null;
      });
      const x = steps.map((s) => s.index),
        names = steps.map((s) => s.emit.map((id) => piece(run, id)).join(""));
      await Plotly.react(
        plot,
        [
          {
            x,
            y: steps.map((s) => s.entropy / Math.LN2),
            name: "entropy",
            mode: "lines",
            line: { color: c.violet, dash: "dot", width: 2 },
            hovertemplate: "%{y:.2f} bits",
          },
          {
            x,
            y: surprise,
            text: names,
            name: "surprise",
            mode: "lines+markers",
            marker: { size: 5 },
            line: { color: c.accent, width: 2 },
            hovertemplate: "%{text}<br>%{y:.2f} bits",
          },
        ],
        {
          margin: { l: 44, r: 8, t: 8, b: 36 },
          paper_bgcolor: "rgba(0,0,0,0)",
          plot_bgcolor: "rgba(0,0,0,0)",
          font: { color: c.text, size: 12 },
          showlegend: true,
          legend: { orientation: "h", y: 1.12, x: 0 },
          xaxis: { title: { text: "step" }, gridcolor: c.line, zeroline: false },
          yaxis: {
            title: { text: "bits" },
            gridcolor: c.line,
            rangemode: "tozero",
            zeroline: false,
          },
          hovermode: "x unified",
          hoverlabel: { bgcolor: c.bg, font: { color: c.text } },
        },
        { displayModeBar: false, responsive: true },
      );
      if (!ready) {
        ready = true;
        plot.on("plotly_click", (event) => ctx.select(event.points[0].x));
      }
      busy = false;
      if (wanted) {
        const next = wanted;
        wanted = null;
        paint(next);
      }
    }
    return {
      update(run, from) {
        if (run.steps.length === shown && from && run.status === "running") return;
        if (run.steps.length && (run.steps.length !== shown || from === 0)) {
          shown = run.steps.length;
          paint(run);
        }
      },
      select() {},
      clear() {
        shown = 0;
      },
    };
  },
};
