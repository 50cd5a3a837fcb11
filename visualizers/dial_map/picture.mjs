// The dial map as a picture: a cell is a word, as wide as the stretch of the dial that writes it.
// Equal beginnings share a cell. Below it, the figures of each text are steps over the dial.
import { svg } from "../shared/dom.mjs";
import { formatSetting, makeVisible } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @import { DialMap } from "./intervals.mjs" */

export const ROW_HEIGHT = 22;
const LETTER_WIDTH = 6.6;
const PADDING = 8;
const MIN_LETTERS = 2;
const FIGURE_HEIGHT = 34;
const TICKS = 5;
// From this rank on, a cell has the deepest colour.
const DEEPEST_RANK = 100;
const DEEPEST_SHARE = 62;

/**
 * Place of a value of the dial on a picture of some width.
 * @drawing
 * @param {Pick<DialMap, "low" | "high">} map
 * @param {number} width
 */
export const createPlacing =
  ({ low, high }, width) =>
  (/** @type {number} */ value) =>
    (width * (value - low)) / (high - low || 1);

/**
 * The value of the dial at a place of the picture.
 * @drawing
 * @param {Pick<DialMap, "low" | "high">} map
 * @param {number} share from 0 to 1
 */
export const valueAt = ({ low, high }, share) =>
  low + (high - low) * Math.min(1, Math.max(0, share));

/**
 * How deep the colour of a cell is, in percent: pale for the model's favourite.
 * @drawing
 * @param {number} rank from 1
 */
export const colourDepth = (rank) =>
  Math.round(Math.min(1, Math.log(rank) / Math.log(DEEPEST_RANK)) * DEEPEST_SHARE);

/**
 * A word cut to its cell; empty if there is no room for it.
 * @drawing
 * @param {string} word
 * @param {number} wide
 */
export function fitWord(word, wide) {
  const room = Math.floor((wide - PADDING) / LETTER_WIDTH);
  const shown = makeVisible(word || tr("(end)")).trim();
  if (shown.length <= room) return shown;
  return room < MIN_LETTERS ? "" : `${shown.slice(0, room - 1)}…`;
}

/**
 * Draw the cells of a map.
 * @drawing
 * @param {DialMap} map
 * @param {number} width
 */
export function drawCells(map, width) {
  const { cells, edges, rows } = map.view;
  const place = createPlacing(map, width);
  const nodes = cells.map(([row, first, last, word, rank]) => {
    const [left, right] = [place(edges[first]), place(edges[last + 1])];
    const rect = { x: left, y: row * ROW_HEIGHT, width: Math.max(0, right - left) };
    const label = fitWord(word, rect.width);
    const box = svg("rect", { class: "di-cell", ...rect, height: ROW_HEIGHT });
    box.style.setProperty("--di-depth", `${colourDepth(rank)}%`);
    const at = { x: (left + right) / 2, y: rect.y + ROW_HEIGHT - 7 };
    return svg(
      "g",
      {},
      svg("title", {}, tr("“{word}”, rank {rank}", { word: makeVisible(word).trim(), rank })),
      box,
      label ? svg("text", { class: "di-word", ...at }, label) : null,
    );
  });
  const height = rows * ROW_HEIGHT;
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  return svg("svg", { class: "di-cells", ...size, "aria-hidden": "true" }, nodes);
}

/**
 * Draw the values at the ends of the dial and between them.
 * @drawing
 * @param {Pick<DialMap, "low" | "high">} map
 * @param {number} width
 */
export function drawAxis(map, width) {
  const shares = [...Array(TICKS).keys()].map((i) => i / (TICKS - 1));
  const ticks = shares.map((share, i) => {
    const anchor = i === 0 ? "start" : i === TICKS - 1 ? "end" : "middle";
    const words = formatSetting(Number(valueAt(map, share).toPrecision(3)));
    return svg("text", { class: "di-tick", x: width * share, y: 14, "text-anchor": anchor }, words);
  });
  return svg(
    "svg",
    { width, height: 18, viewBox: `0 0 ${width} 18`, "aria-hidden": "true" },
    ticks,
  );
}

/**
 * Draw one figure of every text as steps over the dial; none where no text has the figure.
 * @drawing
 * @param {DialMap} map
 * @param {string} name
 * @param {number} width
 */
export function drawFigure(map, name, width) {
  const { edges, figures } = map.view;
  const values = figures.map((own) => own[name]);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const place = createPlacing(map, width);
  const height = FIGURE_HEIGHT - 4;
  const up = (/** @type {number} */ value) =>
    2 + height * (most === least ? 0.5 : 1 - (value - least) / (most - least));
  const steps = values.map(
    (value, i) =>
      `${i ? "L" : "M"}${place(edges[i]).toFixed(1)} ${up(value).toFixed(1)}H${place(edges[i + 1]).toFixed(1)}`,
  );
  const size = { width, height: FIGURE_HEIGHT, viewBox: `0 0 ${width} ${FIGURE_HEIGHT}` };
  return svg(
    "svg",
    { class: "di-steps", ...size, "aria-hidden": "true" },
    svg("path", { class: "di-path", d: steps.join("") }),
  );
}
