// The map as a Plotly figure.
import { tr } from "../shared/tr.mjs";
import { drawn, layerName, VALUES } from "./values.mjs";

const RANKS = [1, 10, 100, 1000, 10000, 100000];
const LEAST_STEPS = 12;
const MOST_TICKS = 17;

export const CONFIG = { displayModeBar: false, responsive: true };

export const heightOf = (layers) => Math.max(280, Math.min(620, 92 + layers * 17));

function colourbar(value, narrow) {
  const bar = {
    orientation: "h",
    yref: "container",
    y: 1,
    yanchor: "top",
    ypad: 0,
    thickness: 10,
    len: 1,
    title: { text: VALUES[value], side: "top", font: { size: 12 } },
    tickfont: { size: 11 },
    ticklabeloverflow: "allow",
    outlinewidth: 0,
  };
  if (value === "rank")
    return { ...bar, tickvals: RANKS.map((r) => drawn(value, r - 1)), ticktext: RANKS.map(String) };
  if (value === "divergence") return { ...bar, exponentformat: "e", nticks: narrow ? 3 : 6 };
  return bar;
}

function heat(grid, wide) {
  const { z, text, value } = grid;
  const x = z[0].map((_, i) => i + 1);
  const limits = { logprob: { zmax: 0 }, rank: { zmin: 0 } }[value];
  return {
    type: "heatmap",
    x,
    y: z.map((_, i) => i),
    z,
    text,
    hovertemplate: `${tr("step %{x}, layer %{y}")}<br>%{text}<extra></extra>`,
    colorscale: "Cividis",
    reversescale: value === "rank" || value === "entropy",
    xgap: wide > 12 * Math.max(x.length, LEAST_STEPS) ? 1 : 0,
    ygap: 1,
    hoverongaps: false,
    colorbar: colourbar(value, wide < 520),
    ...limits,
  };
}

const lines = (name, [x, y], color, width) => ({
  type: "scatter",
  mode: "lines",
  x,
  y,
  name,
  line: { color, width },
  hoverinfo: "skip",
  showlegend: false,
});

/**
 * A frame round the column of a step.
 * @returns {[number[], number[]]}
 */
function column(step, count) {
  const [left, right, top] = [step + 0.5, step + 1.5, count - 0.5];
  return [
    [left, right, right, left, left],
    [-0.5, -0.5, top, top, -0.5],
  ];
}

export function dataOf(grid, selected, shades, wide) {
  const data = [
    heat(grid, wide),
    lines("edge", grid.outline, shades.bg, 4),
    lines(tr("contrasted layer"), grid.outline, shades.bad, 2),
  ];
  if (selected === null) return data;
  return [...data, lines(tr("selected step"), column(selected, grid.z.length), shades.accent, 2)];
}

export function layoutOf(grid, shades, id) {
  const count = grid.z.length;
  const every = Math.max(1, Math.ceil(count / MOST_TICKS));
  const ticks = grid.z.map((_, i) => i).filter((i) => i % every === 0 || i === count - 1);
  // Without this every name is measured once more with every drawing, to hide what does not fit.
  const plain = { showgrid: false, zeroline: false, fixedrange: true, ticklabeloverflow: "allow" };
  const steps = Math.max(grid.z[0].length, LEAST_STEPS);
  return {
    margin: { l: 62, r: 10, t: 54, b: 38 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: shades.text, size: 12 },
    dragmode: false,
    xaxis: { title: { text: tr("step") }, range: [0.4, steps + 0.6], ...plain },
    yaxis: {
      title: { text: tr("layer") },
      range: [-0.6, count - 0.4],
      tickvals: ticks,
      ticktext: ticks.map((i) => layerName(i, count)),
      ...plain,
    },
    hoverlabel: { bgcolor: shades.bg, bordercolor: shades.line, font: { color: shades.text } },
    uirevision: id,
  };
}
