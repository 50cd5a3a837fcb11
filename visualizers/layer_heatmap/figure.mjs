// The layer map as a Plotly figure.
import { tr } from "../shared/tr.mjs";
import { layerName, toColourValue, VALUE_NAMES } from "./values.mjs";

/** @import { Grid } from "./grid.mjs" */

const RANK_TICKS = [1, 10, 100, 1000, 10000, 100000];
const MIN_STEPS = 12;
const MAX_TICKS = 17;

export const PLOT_CONFIG = { displayModeBar: false, responsive: true };

/** @param {number} layers */
export const plotHeight = (layers) => Math.max(280, Math.min(620, 92 + layers * 17));

/**
 * @param {string} value
 * @param {boolean} narrow
 */
function createColourbar(value, narrow) {
  const bar = {
    orientation: "h",
    yref: "container",
    y: 1,
    yanchor: "top",
    ypad: 0,
    thickness: 10,
    len: 1,
    title: { text: VALUE_NAMES[value], side: "top", font: { size: 12 } },
    tickfont: { size: 11 },
    ticklabeloverflow: "allow",
    outlinewidth: 0,
  };
  if (value === "rank")
    return {
      ...bar,
      tickvals: RANK_TICKS.map((r) => toColourValue(value, r - 1)),
      ticktext: RANK_TICKS.map(String),
    };
  if (value === "divergence") return { ...bar, exponentformat: "e", nticks: narrow ? 3 : 6 };
  return bar;
}

/**
 * @param {Grid} grid
 * @param {number} wide
 */
export function createHeatTrace(grid, wide) {
  const { z, text, value } = grid;
  const x = z[0].map((_, i) => i + 1);
  const limits = value === "logprob" ? { zmax: 0 } : value === "rank" ? { zmin: 0 } : {};
  return {
    type: "heatmap",
    x,
    y: z.map((_, i) => i),
    z,
    text,
    hovertemplate: `${tr("step %{x}, layer %{y}")}<br>%{text}<extra></extra>`,
    colorscale: "Cividis",
    reversescale: value === "rank" || value === "entropy",
    xgap: wide > 12 * Math.max(x.length, MIN_STEPS) ? 1 : 0,
    ygap: 1,
    hoverongaps: false,
    colorbar: createColourbar(value, wide < 520),
    ...limits,
  };
}

/**
 * @param {string} path
 * @param {string} color
 * @param {number} width
 */
const createFrame = (path, color, width) => ({ type: "path", path, line: { color, width } });

/**
 * @param {number} step
 * @param {number} count
 */
const columnFramePath = (step, count) =>
  `M${step + 0.5},-0.5H${step + 1.5}V${count - 0.5}H${step + 0.5}Z`;

/**
 * @param {Grid} grid
 * @param {number | null} selected
 * @param {Record<string, string>} shades
 */
function createFrames(grid, selected, shades) {
  const frames = [
    createFrame(grid.outline, shades.bg, 4),
    createFrame(grid.outline, shades.bad, 2),
  ];
  if (selected === null) return frames;
  return [...frames, createFrame(columnFramePath(selected, grid.z.length), shades.accent, 2)];
}

/**
 * @param {Grid} grid
 * @param {number | null} selected
 * @param {Record<string, string>} shades
 * @param {string} id
 */
export function createLayout(grid, selected, shades, id) {
  const count = grid.z.length;
  const every = Math.max(1, Math.ceil(count / MAX_TICKS));
  const ticks = grid.z.map((_, i) => i).filter((i) => i % every === 0 || i === count - 1);
  // Without `ticklabeloverflow` Plotly measures every tick label on each redraw.
  const plain = { showgrid: false, zeroline: false, fixedrange: true, ticklabeloverflow: "allow" };
  const steps = Math.max(grid.z[0].length, MIN_STEPS);
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
    shapes: createFrames(grid, selected, shades),
    uirevision: id,
  };
}
