// The layer map as a Plotly figure.
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

export function heatOf(grid, wide) {
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

const frame = (path, color, width) => ({ type: "path", path, line: { color, width } });

const columnFrame = (step, count) =>
  `M${step + 0.5},-0.5H${step + 1.5}V${count - 0.5}H${step + 0.5}Z`;

function framesOf(grid, selected, shades) {
  const frames = [frame(grid.outline, shades.bg, 4), frame(grid.outline, shades.bad, 2)];
  if (selected === null) return frames;
  return [...frames, frame(columnFrame(selected, grid.z.length), shades.accent, 2)];
}

export function layoutOf(grid, selected, shades, id) {
  const count = grid.z.length;
  const every = Math.max(1, Math.ceil(count / MOST_TICKS));
  const ticks = grid.z.map((_, i) => i).filter((i) => i % every === 0 || i === count - 1);
  // Without `ticklabeloverflow` Plotly measures every tick label on each redraw.
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
    shapes: framesOf(grid, selected, shades),
    uirevision: id,
  };
}
