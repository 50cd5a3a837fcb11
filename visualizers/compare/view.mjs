// View of a comparison: table of figures, token differences and curves.
import { colours } from "../shared/colours.mjs";
import { el, scroller } from "../shared/dom.mjs";
import { plotly } from "../shared/plotly.mjs";
import { said } from "../shared/server_text.mjs";
import { told } from "../shared/terms.mjs";
import { fixed, visible } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

const ENDED = {
  eos: tr("eos"),
  length: tr("length"),
  stop: tr("stop"),
  cancelled: tr("cancelled"),
  error: tr("error"),
};

function number(value) {
  if (typeof value !== "number") return ENDED[value] ?? said(value) ?? "–";
  if (Number.isInteger(value)) return String(value);
  return Math.abs(value) >= 1000 ? value.toPrecision(4) : fixed(value);
}

// Runs are the columns, because four columns fit a phone and fourteen figures would not.
function tableOf({ columns, rows }) {
  const head = rows.map((row) => `${row[0]} · ${row[1]}`);
  const scope = (text, i) => el("th", { scope: "col", class: i ? "num" : null }, text);
  const line = (name, i) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, said(name)),
      rows.map((row) => el("td", { class: "num" }, number(row[i + 2]))),
    );
  return scroller(
    tr("Figures of every run"),
    el(
      "table",
      { class: "dp-table cmp-table" },
      el("thead", {}, el("tr", {}, ["", ...head].map(scope))),
      el("tbody", {}, columns.slice(2).map(line)),
    ),
  );
}

function difference({ a, b, parts }) {
  const words = (list) => visible(list.join(""));
  const part = ([kind, left, right]) => {
    if (kind === "equal") return [el("span", {}, words(left))];
    return [
      left.length ? el("del", {}, words(left)) : null,
      right.length ? el("ins", {}, words(right)) : null,
    ];
  };
  return el(
    "div",
    {},
    el("h4", {}, tr("{a} against {b}", { a, b })),
    el("p", { class: "cmp-diff" }, parts.flatMap(part)),
  );
}

const DASHES = ["solid", "dash", "dot", "dashdot"];

// Surprise (upper plot) and entropy (lower plot) of a run share their colour and legend entry.
function curvesOf({ name, label, pieces, surprise, entropy }, i, shades) {
  const colour = [shades.accent, shades.bad, shades.good, shades.violet][i % 4];
  const common = {
    type: "scatter",
    mode: "lines",
    x: surprise.map((_, place) => place + 1),
    line: { color: colour, dash: DASHES[i % 4], width: 2 },
    legendgroup: label,
    name,
  };
  const value = `%{y:.2f} ${tr("bits")}<extra></extra>`;
  return [
    { ...common, y: surprise, text: pieces, hovertemplate: `${label} %{text} ${value}` },
    {
      ...common,
      y: entropy,
      showlegend: false,
      yaxis: "y2",
      hovertemplate: `${label} ${value}`,
    },
  ];
}

function layoutOf(shades) {
  const axis = { gridcolor: shades.line, zeroline: false };
  return {
    margin: { l: 48, r: 8, t: 8, b: 40 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: shades.text, size: 12 },
    showlegend: true,
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    hovermode: "x",
    hoverlabel: { bgcolor: shades.bg, font: { color: shades.text } },
    xaxis: { title: { text: tr("new token") }, anchor: "y2", ...axis },
    yaxis: {
      title: { text: tr("surprise, bits") },
      domain: [0.54, 1],
      rangemode: "tozero",
      ...axis,
    },
    yaxis2: {
      title: { text: tr("entropy, bits") },
      domain: [0, 0.46],
      rangemode: "tozero",
      ...axis,
    },
  };
}

async function draw(plot, curves) {
  const Plotly = await plotly();
  const shades = colours();
  const data = curves.flatMap((curve, i) => curvesOf(curve, i, shades));
  const config = { displayModeBar: false, responsive: true };
  await Plotly.react(plot, data, layoutOf(shades), config);
}

const card = (title, ...inside) =>
  el("section", { class: "dp-card", "aria-label": title }, el("h3", {}, title), inside);

const about = (base, held) =>
  el(
    "p",
    { class: "dp-note" },
    told(
      tr(
        "[log-probability] per token and [perplexity] are those of {base} ({held}) reading each text token by token (teacher-forced), whoever wrote it. [rep-n] is the share of [n-gram|n-grams] that repeat an earlier one; distinct-n the share of different ones. Seconds are decoding alone, without waiting. A text that is more probable is not therefore better.",
        { base, held: said(held) },
      ),
    ),
  );

const differences = (diff) =>
  card(
    tr("Token differences"),
    el(
      "div",
      { class: "dp-legend" },
      el("del", {}, tr("only in the first")),
      el("ins", {}, tr("only in the other")),
    ),
    ...diff.map(difference),
  );

export const compareFigures = (root) => ({
  clear: () => root.replaceChildren(),
  show(message) {
    const { base, base_held: held, diff, curves } = message;
    const plot = el("div", {
      class: "dp-plot cmp-plot",
      role: "img",
      "aria-label": tr(
        "Surprise and entropy of every text under the base model, in bits, over the new tokens",
      ),
    });
    root.replaceChildren(
      card(tr("In numbers"), tableOf(message), about(base, held)),
      diff.length ? differences(diff) : "",
      curves.length ? card(tr("Surprise and entropy under {base}", { base }), plot) : "",
    );
    if (curves.length) draw(plot, curves);
  },
});
