// The buttons above a beam tree and the key to its signs below.
import { button, el } from "../shared/dom.mjs";

const KEYS = [
  ["best", "★ best text"],
  ["kept", "kept"],
  ["dead", "kept, died out later"],
  ["ghost", "dropped"],
  ["done", "■ finished"],
  ["ghost", "□ finished, but worse"],
  ["ghost", "⊘ ended, not counted"],
  ["greedy", "G greedy path"],
];

export const press = (control, on) => control.setAttribute("aria-pressed", String(on));

const tool = (text, title, act, pressed) =>
  button(text, act, { title, "aria-label": title, "aria-pressed": pressed });

const set = (...tools) => el("span", { class: "bt-set" }, tools);

export function toolbar({ fold, follow, zoom, fit, enlarge, save }) {
  const folding = tool("Hide dropped", "Hide or show the dropped candidates", fold, "false");
  const following = tool("Follow", "Keep the latest step in view", follow, "true");
  const zooming = set(
    tool("−", "Zoom out", () => zoom(1 / 1.25)),
    tool("+", "Zoom in", () => zoom(1.25)),
    tool("Fit", "Fit the whole tree", fit),
  );
  const large = tool("Full screen", "Show the tree on the whole screen", enlarge);
  const saving = set(
    tool("SVG", "Download as SVG", () => save("svg")),
    tool("PNG", "Download as PNG", () => save("png")),
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
