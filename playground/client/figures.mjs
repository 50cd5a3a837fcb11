// Figures of a run as SVG or PNG.
import { colours } from "../../visualizers/shared/colours.mjs";
import { el } from "../../visualizers/shared/dom.mjs";
import { pictureIn } from "../../visualizers/shared/pictures.mjs";
import { plotly } from "../../visualizers/shared/plotly.mjs";

const NOT_FIGURES = ["status", "scrub", "family", "export"];
const SVG = "http://www.w3.org/2000/svg";

export function figures(root) {
  return [...root.querySelectorAll(":scope > .dp-card, :scope .dp-grid > .dp-card")].filter(
    (card) => {
      const name = [...card.classList].find((c) => c.startsWith("dp-v-")) || "";
      const body = card.lastElementChild;
      return !NOT_FIGURES.includes(name.slice(5)) && body && !body.hidden && card.offsetParent;
    },
  );
}
export const title = (card) => card.getAttribute("aria-label") || "figure";
export const styles = () =>
  [...document.querySelectorAll("style")]
    .filter((s) => s.textContent.includes("--dp-bg"))
    .map((s) => s.textContent)
    .join("\n");

export async function figureSvg(card) {
  const whole = pictureIn(card);
  if (whole) return whole;
  const plot = card.querySelector(".js-plotly-plot");
  if (plot) {
    const Plotly = await plotly(),
      box = plot.getBoundingClientRect();
    const url = await Plotly.toImage(plot, {
      format: "svg",
      width: Math.round(box.width),
      height: Math.round(box.height),
    });
    return {
      text: decodeURIComponent(url.slice(url.indexOf(",") + 1)),
      width: box.width,
      height: box.height,
    };
  }
  const box = card.getBoundingClientRect(),
    dark = !!document.querySelector(".dark");
  const width = Math.ceil(Math.max(box.width, card.scrollWidth));
  const copy = card.cloneNode(true);
  copy.style.width = `${width}px`;
  copy.style.boxSizing = "border-box";
  const inner = document.createElement("div"),
    outer = document.createElement("div");
  outer.className = dark ? "dark" : "";
  inner.className = "gradio-container";
  inner.style.cssText =
    "font-family: system-ui, sans-serif; line-height: 1.5; color: var(--dp-text); background: var(--dp-bg)";
  const stage = el("div", { class: "dp-stage" }, copy);
  inner.append(stage);
  outer.append(el("style", {}, styles()), inner);
  const height = heightOf(outer, width);
  const picture = document.createElementNS(SVG, "svg"),
    holder = document.createElementNS(SVG, "foreignObject");
  for (const node of [picture, holder]) {
    node.setAttribute("width", width);
    node.setAttribute("height", height);
  }
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  holder.append(outer);
  picture.append(holder);
  return { text: new XMLSerializer().serializeToString(picture), width, height };
}
// The copy is laid out without the page's other styles, so its height is its own.
function heightOf(node, width) {
  const frame = el("iframe", {
    "aria-hidden": "true",
    style: {
      position: "absolute",
      left: "-9999px",
      width: `${width}px`,
      height: "10px",
      border: 0,
    },
  });
  document.body.append(frame);
  frame.contentDocument.body.style.margin = 0;
  frame.contentDocument.body.append(frame.contentDocument.importNode(node, true));
  const height = Math.ceil(frame.contentDocument.documentElement.scrollHeight);
  frame.remove();
  return height;
}
export async function figurePng(card) {
  const { text, width, height } = await figureSvg(card),
    image = new Image(),
    scale = 2;
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = el("canvas", {
      width: Math.round(width * scale),
      height: Math.round(height * scale),
    }),
    brush = canvas.getContext("2d");
  brush.fillStyle = colours().bg;
  brush.fillRect(0, 0, canvas.width, canvas.height);
  brush.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, bad) =>
    canvas.toBlob((blob) => (blob ? done(blob) : bad(new Error("no picture"))), "image/png"),
  );
}
