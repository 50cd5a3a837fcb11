// The toolbar above a beam tree, and the legend below it.
import { button, el } from "../shared/dom.mjs";
import { tr } from "../shared/tr.mjs";

const KEYS = [
  ["best", tr("★ best text")],
  ["kept", tr("kept")],
  ["dead", tr("kept, died out later")],
  ["ghost", tr("dropped")],
  ["done", tr("■ finished")],
  ["ghost", tr("□ finished, but worse")],
  ["ghost", tr("⊘ ended, not counted")],
  ["greedy", tr("G greedy path")],
];

export const press = (control, on) => control.setAttribute("aria-pressed", String(on));

const tool = (text, title, act, pressed) =>
  button(text, act, { title, "aria-label": title, "aria-pressed": pressed });

const set = (...tools) => el("span", { class: "bt-set" }, tools);

export function toolbar({ fold, follow, zoom, fit, enlarge, save }) {
  const folding = tool(
    tr("Hide dropped"),
    tr("Hide or show the dropped candidates"),
    fold,
    "false",
  );
  const following = tool(tr("Follow"), tr("Keep the latest step in view"), follow, "true");
  const zooming = set(
    tool("−", tr("Zoom out"), () => zoom(1 / 1.25)),
    tool("+", tr("Zoom in"), () => zoom(1.25)),
    tool(tr("Fit"), tr("Fit the whole tree"), fit),
  );
  const large = tool(tr("Full screen"), tr("Show the tree on the whole screen"), enlarge);
  const saving = set(
    tool("SVG", tr("Download as SVG"), () => save("svg")),
    tool("PNG", tr("Download as PNG"), () => save("png")),
  );
  const box = el("div", { class: "dp-row bt-tools" }, folding, following, zooming, large, saving);
  return { box, folding, following };
}

export const legend = () =>
  el(
    "div",
    { class: "dp-legend bt-legend" },
    KEYS.map(([kind, text]) => el("span", { class: `bt-key ${kind}` }, text)),
  );
