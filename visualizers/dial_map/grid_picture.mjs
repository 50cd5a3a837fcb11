// The map of two dials as a picture: a cell is a text, a row is a value of the second dial.
import { svg } from "../shared/dom.mjs";
import { formatSetting } from "../shared/text.mjs";
import { countShared } from "./intervals.mjs";
import { createPlacing } from "./picture.mjs";

/**
 * A text of the map, and a cell: a stretch of the first dial at one value of the second.
 * @typedef {{ token_ids: number[], end: string }} GridText
 * @typedef {{ row: number, low: number, high: number, text: number, sure: boolean }} GridCell
 *
 * What the server computes for the picture: the left and right edge of each cell, and the figures of
 * each text.
 * @typedef {{ edges: [number, number][], figures: Record<string, number>[] }} GridView
 *
 * @typedef {{ dial: string, low: number, high: number, value: number, second: string,
 *   second_value: number | null, values: number[], cells: GridCell[], texts: GridText[],
 *   pieces: Record<string, string>, notes?: string[], view: GridView }} DialGrid
 */

export const GRID_ROW = 20;
export const GRID_LEFT = 40;
const LETTERS = 26;
const LETTER_WIDTH = 8;
const PATTERNS = 4;
const DEEPEST_SHARE = 62;
const SPOT = 5;
let pictures = 0;

/**
 * The letters of a text: A to Z, then AA.
 * @drawing
 * @param {number} place from 0
 * @returns {string}
 */
export const textLetters = (place) =>
  (place < LETTERS ? "" : textLetters(Math.floor(place / LETTERS) - 1)) +
  String.fromCharCode(65 + (place % LETTERS));

/**
 * Return where values of both dials are on a picture of some width; the highest row is on top.
 * @drawing
 * @param {DialGrid} grid
 * @param {number} width
 */
export function createGridPlacing({ low, high, values }, width) {
  const place = createPlacing({ low, high }, width - GRID_LEFT);
  return {
    x: (/** @type {number} */ value) => GRID_LEFT + place(value),
    y: (/** @type {number} */ row) => (values.length - 1 - row) * GRID_ROW,
  };
}

/**
 * Return the value of the first dial and the row of the second at a place of the picture.
 * @drawing
 * @param {DialGrid} grid
 * @param {number} width of the picture
 * @param {number} x
 * @param {number} y
 */
export function findGridPlace({ low, high, values }, width, x, y) {
  const share = Math.min(1, Math.max(0, (x - GRID_LEFT) / (width - GRID_LEFT)));
  const fromTop = Math.min(values.length - 1, Math.max(0, Math.floor(y / GRID_ROW)));
  return { value: low + share * (high - low), row: values.length - 1 - fromTop };
}

/**
 * Return the place of the cell at a value in a row.
 * @param {DialGrid} grid
 * @param {number} row
 * @param {number} value
 */
export function findCell({ cells, view }, row, value) {
  const own = [...cells.keys()].filter((i) => cells[i].row === row);
  return own.find((i) => value <= view.edges[i][1]) ?? own[own.length - 1];
}

/** @param {string} prefix of the ids */
function createPatterns(prefix) {
  const lines = ["M0 6L6 0", "M0 0L6 6", "M0 3H6"];
  return svg(
    "defs",
    {},
    lines.map((d, i) =>
      svg(
        "pattern",
        { id: `${prefix}-${i + 1}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" },
        svg("path", { class: "gd-hatch", d }),
      ),
    ),
  );
}

/**
 * Draw the cells. The same text has the same colour, pattern and letters: the deeper the colour, the
 * more of its beginning is that of the run's text.
 * @drawing
 * @param {DialGrid} grid
 * @param {number[]} own tokens of the run's text
 * @param {number} width
 */
export function drawGrid(grid, own, width) {
  const { cells, texts, values, view, second_value, value } = grid;
  const { x, y } = createGridPlacing(grid, width);
  const prefix = `gd-${++pictures}`;
  const shares = texts.map(
    ({ token_ids }) => countShared(token_ids, own) / Math.max(1, token_ids.length),
  );
  const nodes = cells.map(({ row, text }, i) => {
    const [left, right] = view.edges[i].map(x);
    const rect = { x: left, y: y(row), width: Math.max(0, right - left), height: GRID_ROW };
    const box = svg("rect", { class: "gd-cell", ...rect });
    box.style.setProperty("--gd-depth", `${Math.round(shares[text] * DEEPEST_SHARE)}%`);
    const hatch = text % PATTERNS;
    const letters = textLetters(text);
    const fits = rect.width >= LETTER_WIDTH * letters.length + 4;
    const at = { x: (left + right) / 2, y: rect.y + GRID_ROW - 6 };
    return svg(
      "g",
      { "data-text": text },
      box,
      hatch ? svg("rect", { ...rect, fill: `url(#${prefix}-${hatch})` }) : null,
      fits ? svg("text", { class: "gd-letter", ...at }, letters) : null,
    );
  });
  const labels = values.map((one, row) =>
    svg(
      "text",
      { class: "di-tick", x: GRID_LEFT - 6, y: y(row) + GRID_ROW - 6, "text-anchor": "end" },
      formatSetting(Number(one.toPrecision(3))),
    ),
  );
  const ownRow = second_value === null ? -1 : values.indexOf(second_value);
  const spot = { cx: x(value), cy: y(ownRow) + GRID_ROW / 2, r: SPOT };
  const height = values.length * GRID_ROW;
  return svg(
    "svg",
    { class: "gd-cells", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    createPatterns(prefix),
    nodes,
    labels,
    ownRow < 0 ? null : svg("circle", { class: "gd-own", ...spot }),
  );
}
