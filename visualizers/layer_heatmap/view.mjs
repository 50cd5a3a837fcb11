import { colours } from "../shared/colours.mjs";
import { el, table } from "../shared/dom.mjs";
import { plotly } from "../shared/plotly.mjs";
import { percent, piece } from "../shared/text.mjs";

const VALUES = {
  divergence: "divergence from the last layer",
  entropy: "entropy, nats",
  rank: "rank of the emitted token",
  logprob: "log-probability of the emitted token",
};
const PROJECTIONS = { raw: "as DoLa projects it", normed: "with the final norm applied" };
const FLOOR = -20,
  PAUSE = 250,
  RANKS = [0, 1, 10, 100, 1000, 10000, 100000];
const key = (name, projection) => (projection === "raw" ? name : `normed_${name}`);
const drawn = (name, x) =>
  x === null
    ? null
    : name === "rank"
      ? Math.log10(x + 1)
      : name === "logprob"
        ? Math.max(FLOOR, x)
        : x;
const number = (name, x) =>
  x === null
    ? "–"
    : name === "rank"
      ? String(x)
      : name === "divergence"
        ? x.toExponential(2)
        : x.toFixed(2).replace("-", "−");
const escape = (text) =>
  text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
const layerName = (layer, count) =>
  layer === 0 ? "0 input" : layer === count - 1 ? `${layer} output` : String(layer);

export const layerHeatmap = {
  title: "Layer map: what every layer would have said",
  empty:
    "Layers over steps: how far each layer is from the last one, and where the token that was emitted first appears.",
  wide: true,
  mount(root, ctx) {
    let value = "divergence",
      projection = "raw",
      current = null,
      shown = 0,
      selected = -1,
      cell = null,
      z = [],
      text = [],
      outline = [[], []],
      busy = false,
      timer = 0,
      again = false,
      ready = false,
      drawnAt = 0,
      changedView = false;
    const pick = (options, label, set) => {
      const box = el(
        "select",
        {
          class: "lh-pick",
          "aria-label": label,
          onchange: () => {
            set(box.value);
            rebuild();
          },
        },
        Object.entries(options).map(([v, name]) => el("option", { value: v }, name)),
      );
      return box;
    };
    const plot = el("div", {
      class: "lh-plot",
      role: "img",
      "aria-label":
        "Heatmap of layers over steps; the column table below carries the numbers of the selected step",
    });
    const drawnNote = el("p", { class: "dp-note" }),
      readout = el("p", { class: "dp-note lh-cell", "aria-live": "polite" }),
      missing = el("p", { class: "dp-note" });
    const column = el("div", { class: "lh-column" }),
      contrast = el("div", { class: "lh-contrast" }),
      tableBody = el("div", {});
    const more = el(
      "details",
      {
        class: "lh-more",
        ontoggle: () => {
          if (more.open && current) tableBody.replaceChildren(tableOf(current));
        },
      },
      el("summary", {}, "Table of every layer and step"),
      tableBody,
    );
    root.append(
      el(
        "p",
        { class: "lh-warn" },
        el("b", {}, "Not advised for small models. "),
        "The paper finds gains for models of 7 billion parameters and more and none for ones like GPT-2 (its appendix N). On a small model read this as a picture of how a prediction forms.",
      ),
      el(
        "div",
        { class: "dp-row lh-controls" },
        el(
          "label",
          {},
          "Colour: ",
          pick(VALUES, "What the colour shows", (v) => {
            value = v;
          }),
        ),
        el(
          "label",
          {},
          "Layers read ",
          pick(PROJECTIONS, "How a layer becomes a distribution", (v) => {
            projection = v;
          }),
        ),
      ),
      plot,
      drawnNote,
      missing,
      readout,
      el("div", { class: "lh-under" }, column, contrast),
      more,
    );

    const layersOf = (run) => {
      const first = run.steps.find((s) => s.detail && s.detail.kind === "layer");
      return first ? first.detail.layers.length : 0;
    };
    function push(run, step) {
      step.detail.layers.forEach((r, i) => {
        (z[i] = z[i] || []).push(drawn(value, r[key(value, projection)]));
        (text[i] = text[i] || []).push(
          `${number(value, r[key(value, projection)])}<br>${r[key("top", projection)].map(([id, p]) => `${escape(piece(run, id))} ${percent(p)}`).join("<br>")}`,
        );
      });
      const x = step.index + 1,
        y = step.detail.premature_layer;
      outline[0].push(x - 0.5, x + 0.5, x + 0.5, x - 0.5, x - 0.5, null);
      outline[1].push(y - 0.5, y - 0.5, y + 0.5, y + 0.5, y - 0.5, null);
    }
    function grow(run) {
      for (; shown < run.steps.length; shown++)
        if (run.steps[shown].detail && run.steps[shown].detail.kind === "layer")
          push(run, run.steps[shown]);
    }
    function rebuild() {
      if (!current) return;
      z = [];
      text = [];
      outline = [[], []];
      shown = 0;
      changedView = true;
      grow(current);
      say(current);
      schedule(0);
      fillColumn();
      fillCell();
    }
    // The plot is redrawn at most four times a second, however fast the steps arrive.
    function schedule(pause = PAUSE) {
      if (busy) {
        again = true;
        return;
      }
      if (timer) return;
      timer = setTimeout(
        async () => {
          timer = 0;
          busy = true;
          try {
            await paint();
          } finally {
            busy = false;
            drawnAt = performance.now();
            if (again) {
              again = false;
              schedule();
            }
          }
        },
        Math.max(0, pause - (performance.now() - drawnAt)),
      );
    }
    async function paint() {
      const Plotly = await plotly(),
        run = current;
      if (!run || !z.length || !plot.isConnected) return;
      if (run.status === "running" && run.follow) fillColumn();
      const c = colours(),
        count = z.length,
        narrow = plot.clientWidth < 520,
        x = z[0].map((_, i) => i + 1),
        step = run.steps[selected];
      const heat = {
        type: "heatmap",
        x,
        y: z.map((_, i) => i),
        z,
        text,
        hovertemplate: "step %{x}, layer %{y}<br>%{text}<extra></extra>",
        colorscale: "Cividis",
        reversescale: value === "rank" || value === "entropy",
        xgap: plot.clientWidth > 12 * Math.max(x.length, 12) ? 1 : 0,
        ygap: 1,
        hoverongaps: false,
        colorbar: {
          orientation: "h",
          yref: "container",
          y: 1,
          yanchor: "top",
          ypad: 0,
          thickness: 10,
          len: 1,
          title: { text: VALUES[value], side: "top", font: { size: 12 } },
          tickfont: { size: 11 },
          outlinewidth: 0,
          ...(value === "rank"
            ? { tickvals: RANKS.map((r) => Math.log10(r + 1)), ticktext: RANKS.map(String) }
            : {}),
          ...(value === "divergence" ? { exponentformat: "e", nticks: narrow ? 3 : 6 } : {}),
        },
      };
      if (value === "logprob") Object.assign(heat, { zmax: 0 });
      if (value === "rank") Object.assign(heat, { zmin: 0 });
      const lines = (name, xs, ys, colour, width) => ({
        type: "scatter",
        mode: "lines",
        x: xs,
        y: ys,
        name,
        line: { color: colour, width },
        hoverinfo: "skip",
        showlegend: false,
      });
      const data = [
        heat,
        lines("edge", ...outline, c.bg, 4),
        lines("contrasted layer", ...outline, c.bad, 2),
      ];
      if (step)
        data.push(
          lines(
            "selected step",
            [selected + 0.5, selected + 1.5, selected + 1.5, selected + 0.5, selected + 0.5],
            [-0.5, -0.5, count - 0.5, count - 0.5, -0.5],
            c.accent,
            2,
          ),
        );
      const every = Math.max(1, Math.ceil(count / 17)),
        ticks = z.map((_, i) => i).filter((i) => i % every === 0 || i === count - 1);
      plot.style.height = `${Math.max(280, Math.min(620, 92 + count * 17))}px`;
      await Plotly.react(
        plot,
        data,
        {
          margin: { l: 62, r: 10, t: 54, b: 38 },
          paper_bgcolor: "rgba(0,0,0,0)",
          plot_bgcolor: "rgba(0,0,0,0)",
          font: { color: c.text, size: 12 },
          dragmode: false,
          xaxis: {
            title: { text: "step" },
            range: [0.4, Math.max(x.length, 12) + 0.6],
            showgrid: false,
            zeroline: false,
            fixedrange: true,
          },
          yaxis: {
            title: { text: "layer" },
            range: [-0.6, count - 0.4],
            tickvals: ticks,
            ticktext: ticks.map((i) => layerName(i, count)),
            showgrid: false,
            zeroline: false,
            fixedrange: true,
          },
          hoverlabel: { bgcolor: c.bg, bordercolor: c.line, font: { color: c.text } },
          uirevision: run.id,
        },
        { displayModeBar: false, responsive: true },
      );
      plot.dataset.steps = x.length;
      plot.dataset.view = `${value} ${projection}`;
      if (!ready) {
        ready = true;
        plot.on("plotly_click", (event) => {
          const point = event.points.find((p) => p.data.type === "heatmap");
          if (!point) return;
          cell = { step: point.x - 1, layer: point.y };
          ctx.select(cell.step);
          fillCell();
        });
      }
    }
    function fillCell() {
      const step = cell && current?.steps[cell.step],
        r = step?.detail?.layers ? step.detail.layers[cell.layer] : null;
      readout.textContent = r
        ? `Step ${cell.step + 1}, layer ${layerName(cell.layer, step.detail.layers.length)} ${PROJECTIONS[projection]}: ${Object.keys(
            VALUES,
          )
            .map((v) => `${VALUES[v].split(" of ")[0]} ${number(v, r[key(v, projection)])}`)
            .join(
              ", ",
            )}. Top tokens: ${r[key("top", projection)].map(([id, p]) => `“${piece(current, id)}” ${percent(p)}`).join(", ")}.`
        : "Click a cell for its top tokens.";
    }
    function roleOf(d, layer) {
      return layer === d.premature_layer
        ? "■ contrasted"
        : layer === d.layers.length - 1
          ? "● output"
          : d.candidate_layers.includes(layer)
            ? "○ candidate"
            : "";
    }
    function fillColumn() {
      const run = current,
        step = run?.steps[selected],
        d = step?.detail;
      if (d?.kind !== "layer") return;
      const numbers = d.layers.map((r) => drawn(value, r[key(value, projection)])),
        finite = numbers.filter((x) => x !== null),
        low = Math.min(...finite, 0),
        high = Math.max(...finite, 0),
        width = (x) => (x === null || high === low ? 0 : (100 * (x - low)) / (high - low));
      const rows = d.layers
        .map((r, i) =>
          el(
            "tr",
            { class: i === d.premature_layer ? "on" : null },
            el("th", { scope: "row" }, layerName(i, d.layers.length)),
            el("td", { class: "role" }, roleOf(d, i)),
            el(
              "td",
              { class: "val" },
              el(
                "span",
                { class: "lh-bar", "aria-hidden": "true" },
                el("i", { style: { width: `${width(numbers[i])}%` } }),
              ),
              el("span", {}, number(value, r[key(value, projection)])),
            ),
            el(
              "td",
              { class: "tops" },
              r[key("top", projection)].map(([id, p]) =>
                el(
                  "span",
                  { class: id === step.emit[0] ? "hit" : null },
                  piece(run, id),
                  el("small", {}, percent(p)),
                ),
              ),
            ),
          ),
        )
        .reverse();
      column.replaceChildren(
        el(
          "h4",
          {},
          `Step ${selected + 1}: “${piece(run, step.emit[0])}” layer by layer, ${PROJECTIONS[projection]}`,
        ),
        el(
          "div",
          {
            class: "dp-scroll",
            tabindex: 0,
            role: "region",
            "aria-label": "The selected step's layers",
          },
          el(
            "table",
            { class: "dp-table lh-table" },
            el(
              "thead",
              {},
              el(
                "tr",
                {},
                ["layer", "role", VALUES[value], "top tokens (the emitted one framed)"].map((h) =>
                  el("th", { scope: "col" }, h),
                ),
              ),
            ),
            el("tbody", {}, rows),
          ),
        ),
      );
      const list = (title, pairs, show) =>
        el(
          "div",
          {},
          el("h4", {}, title),
          el(
            "ol",
            {},
            pairs.map(([id, x]) =>
              el(
                "li",
                { class: id === step.emit[0] ? "on" : null },
                el("span", { class: "t" }, piece(run, id)),
                el("span", { class: "n" }, show(x)),
              ),
            ),
          ),
        );
      contrast.replaceChildren(
        el(
          "div",
          { class: "lh-pair" },
          list("Before: the output", d.final_top, percent),
          list(
            `After: minus layer ${d.premature_layer}`,
            d.contrast_top,
            (x) => (x > 0 ? "+" : "") + x.toFixed(2).replace("-", "−"),
          ),
        ),
        el(
          "p",
          { class: "dp-note" },
          `Mask: ${d.kept.toLocaleString("en")} of ${run.model.vocab_size.toLocaleString("en")}${d.kept === 1 ? " token has" : " tokens have"} at least a tenth of the top token's probability; all others are removed. After: log-probability in the output minus that in layer ${d.premature_layer}, in nats, before other processors such as the repetition penalty.`,
        ),
      );
    }
    function tableOf(run) {
      const rows = [];
      for (const step of run.steps)
        if (step.detail && step.detail.kind === "layer")
          for (const r of step.detail.layers)
            rows.push([
              step.index + 1,
              piece(run, step.emit[0]),
              r.layer,
              roleOf(step.detail, r.layer),
              ...Object.keys(VALUES).map((v) => number(v, r[key(v, projection)])),
              r[key("top", projection)].map(([id]) => piece(run, id)).join("  "),
            ]);
      return el(
        "div",
        {},
        el("p", { class: "dp-note" }, `Read ${PROJECTIONS[projection]}.`),
        table(
          [
            "step",
            "token",
            "layer",
            "role",
            "divergence",
            "entropy",
            "rank",
            "log-probability",
            "top tokens",
          ],
          rows,
        ),
      );
    }
    function say(run) {
      drawnNote.textContent = `Drawn: ${VALUES[value]}, every layer read ${PROJECTIONS[projection]}${projection === "raw" ? " (output head on the bare hidden state; DoLa decides on this)." : " (the logit lens; DoLa does not use this)."} The framed cell of a step is the layer it was contrasted with.${value === "logprob" ? " Values below −20 have the colour of −20." : value === "rank" ? " Rank 0 is best; the scale is logarithmic." : ""}`;
      const wanted = Array.isArray(run.config.dola_layers)
        ? run.config.dola_layers.filter((l) => l >= run.model.layers)
        : [];
      missing.textContent = wanted.length
        ? `Left out, because this model has layers 0 to ${run.model.layers - 1}: ${wanted.join(", ")}.`
        : "";
    }
    return {
      update(run) {
        const fresh = current !== run;
        current = run;
        if (run.steps.length === shown && !fresh && !changedView) return;
        changedView = false;
        grow(run);
        if (layersOf(run)) {
          say(run);
          schedule();
        }
      },
      select(run, index) {
        if (selected === index && current === run && column.firstChild) return;
        selected = index;
        // While the newest step is followed the column keeps the pace of the plot.
        if (run.status === "running" && run.follow) return schedule();
        fillColumn();
        if (!readout.textContent) fillCell();
        schedule(60);
      },
      clear() {
        shown = 0;
        selected = -1;
        cell = null;
        z = [];
        text = [];
        outline = [[], []];
        for (const box of [column, contrast, tableBody]) box.replaceChildren();
        for (const line of [drawnNote, readout, missing]) line.textContent = "";
        delete plot.dataset.steps;
        if (ready) {
          ready = false;
          window.Plotly.purge(plot);
        }
      },
    };
  },
};
