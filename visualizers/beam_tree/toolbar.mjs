// The toolbar above a beam tree, and the legend below it.
import { createButton, el } from "../shared/dom.mjs";
import { tr } from "../shared/tr.mjs";

const LEGEND_KEYS = [
  ["likely", tr("thicker: more probable")],
  ["cross", tr("dropped")],
  ["greedy", tr("greedy search")],
];
const DETAIL_KEYS = [
  ["done", tr("■ finished")],
  ["ghost", tr("□ finished, but worse")],
  ["ghost", tr("⊘ ended, not counted")],
  ["ghost", tr("+2: hidden dropped words")],
];

/**
 * @param {Element} control
 * @param {boolean} on
 */
export const setPressed = (control, on) => control.setAttribute("aria-pressed", String(on));

/**
 * @param {string} text
 * @param {string} title
 * @param {() => void} act
 * @param {string} [pressed]
 */
const createTool = (text, title, act, pressed) =>
  createButton(text, act, { title, "aria-label": title, "aria-pressed": pressed });

/** @param {...HTMLElement} tools */
const createToolSet = (...tools) => el("span", { class: "bt-set" }, tools);

/**
 * @param {object} actions
 * @param {() => void} actions.fold
 * @param {() => void} actions.follow
 * @param {(factor: number) => void} actions.zoom
 * @param {() => void} actions.fit
 * @param {() => void} actions.enlarge
 * @param {(kind: "svg" | "png") => void} actions.save
 */

export function createToolbar({ fold, follow, zoom, fit, enlarge, save }) {
  const folding = createTool(
    tr("Show dropped"),
    tr("Show or hide the dropped words"),
    fold,
    "false",
  );
  const following = createTool(tr("Follow"), tr("Keep the latest step in view"), follow, "true");
  const zooming = createToolSet(
    createTool("−", tr("Zoom out"), () => zoom(1 / 1.25)),
    createTool("+", tr("Zoom in"), () => zoom(1.25)),
    createTool(tr("Fit"), tr("Fit the whole tree"), fit),
  );
  const large = createTool(tr("Full screen"), tr("Show the tree on the whole screen"), enlarge);
  const saving = createToolSet(
    createTool("SVG", tr("Download as SVG"), () => save("svg")),
    createTool("PNG", tr("Download as PNG"), () => save("png")),
  );
  const box = el("div", { class: "dp-row bt-tools" }, folding, following, zooming, large, saving);
  return { box, folding, following };
}

/** @param {string[][]} keys */
const createKeys = (keys) =>
  el(
    "div",
    { class: "dp-legend bt-legend" },
    keys.map(([kind, text]) => el("span", { class: `bt-key ${kind}` }, text)),
  );

export const createLegend = () => createKeys(LEGEND_KEYS);

export const createDetailLegend = () => createKeys(DETAIL_KEYS);
