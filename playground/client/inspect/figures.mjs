// The figures of a run's stage, rendered as SVG or PNG.
import { readColours } from "../../../visualizers/shared/colours.mjs";
import { el } from "../../../visualizers/shared/dom.mjs";
import { drawCardPicture } from "../../../visualizers/shared/pictures.mjs";
import { loadPlotly } from "../../../visualizers/shared/plotly.mjs";
import { pageLanguage, tr } from "../../../visualizers/shared/tr.mjs";

const EXCLUDED_VIEWS = [
  "beside",
  "about",
  "look",
  "status",
  "predict",
  "since",
  "scrub",
  "sentence",
  "family",
  "export",
  "what_if",
  "why",
];
export const NO_PICTURE = tr(
  "This figure could not be drawn as a picture; another format may work.",
);
const SVG = "http://www.w3.org/2000/svg";
const VIEW = "dp-v-";

/** @param {Element} card */
const viewName = (card) =>
  ([...card.classList].find((c) => c.startsWith(VIEW)) || "").slice(VIEW.length);

/**
 * Return the cards of a stage that show a figure.
 * @param {HTMLElement} root
 */
export function listFigures(root) {
  /** @type {NodeListOf<HTMLElement>} */
  const cards = root.querySelectorAll(".dp-card");
  return [...cards].filter((card) => {
    const body = card.lastElementChild;
    const shown = body instanceof HTMLElement && !body.hidden && card.offsetParent;
    const named = !EXCLUDED_VIEWS.includes(viewName(card));
    return shown && named && !card.querySelector(".dp-no-picture");
  });
}

/** @param {Element} card */
export const figureTitle = (card) => card.getAttribute("aria-label") || tr("figure");

/**
 * Return a figure's file name: its English title, in other languages the view's name.
 * @param {Element} card
 */
export const figureFileName = (card) =>
  (pageLanguage() === "en" ? figureTitle(card) : viewName(card) || "figure")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-");

// The page's own styles, recognised by its colour variables; Gradio's are left out.
const pageStyles = () =>
  [...document.querySelectorAll("style")]
    .map((s) => s.textContent)
    .filter((text) => text.includes("--dp-bg"))
    .join("\n");

/**
 * A figure as SVG, with its size in pixels.
 * @typedef {{ text: string, width: number, height: number }} Svg
 */

/**
 * @param {HTMLElement} card
 * @returns {Promise<Svg>}
 */
export async function figureSvg(card) {
  const whole = drawCardPicture(card);
  if (whole) return whole;
  /** @type {HTMLElement | null} */
  const plot = card.querySelector(".js-plotly-plot");
  return plot ? plotSvg(plot) : cardSvg(card);
}

/** @param {HTMLElement} plot */
async function plotSvg(plot) {
  const Plotly = await loadPlotly();
  const { width, height } = plot.getBoundingClientRect();
  const size = { width: Math.round(width), height: Math.round(height) };
  const url = await Plotly.toImage(plot, { format: "svg", ...size });
  return { text: decodeURIComponent(url.slice(url.indexOf(",") + 1)), width, height };
}

/**
 * Return a card made of HTML: a copy with the page's styles, in a foreignObject.
 * @param {HTMLElement} card
 */
function cardSvg(card) {
  const width = Math.ceil(Math.max(card.getBoundingClientRect().width, card.scrollWidth));
  const outer = copyWithStyles(card, width);
  const height = measureHeight(outer, width);
  const picture = document.createElementNS(SVG, "svg");
  const holder = document.createElementNS(SVG, "foreignObject");
  for (const node of [picture, holder]) {
    node.setAttribute("width", String(width));
    node.setAttribute("height", String(height));
  }
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  holder.append(outer);
  picture.append(holder);
  return { text: new XMLSerializer().serializeToString(picture), width, height };
}

/**
 * @param {HTMLElement} card
 * @param {number} width in pixels
 */
function copyWithStyles(card, width) {
  const copy = /** @type {HTMLElement} */ (card.cloneNode(true));
  copy.style.width = `${width}px`;
  copy.style.boxSizing = "border-box";
  // New tokens fade in; without this the figure would show them half transparent.
  for (const token of copy.querySelectorAll(".new")) token.classList.remove("new");
  const inner = document.createElement("div");
  const outer = document.createElement("div");
  outer.className = document.querySelector(".dark") ? "dark" : "";
  inner.style.cssText =
    "font-family: system-ui, sans-serif; line-height: 1.5; color: var(--dp-text); background: var(--dp-bg)";
  inner.append(el("div", { class: "dp-stage" }, copy));
  const still =
    "*, ::before { animation: none !important; transition: none !important; } .dp-scroll-whole { max-height: none !important; }";
  outer.append(el("style", {}, pageStyles(), still), inner);
  return outer;
}

/**
 * Measure in an empty frame: the SVG lacks Gradio's styles, so the height on the page differs.
 * @param {HTMLElement} node
 * @param {number} width in pixels
 */
function measureHeight(node, width) {
  const away = { position: "absolute", left: "-9999px", border: 0 };
  const style = { ...away, width: `${width}px`, height: "10px" };
  const frame = el("iframe", { "aria-hidden": "true", style });
  document.body.append(frame);
  // A frame without an address has a document at once.
  const inside = /** @type {Document} */ (frame.contentDocument);
  inside.body.style.margin = "0";
  inside.body.append(inside.importNode(node, true));
  const height = Math.ceil(inside.documentElement.scrollHeight);
  frame.remove();
  return height;
}

/**
 * @param {HTMLElement} card
 * @returns {Promise<Blob>}
 */
export async function figurePng(card) {
  const { text, width, height } = await figureSvg(card);
  const scale = 2;
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = el("canvas", {
    width: Math.round(width * scale),
    height: Math.round(height * scale),
  });
  const brush = canvas.getContext("2d");
  if (!brush) throw new Error("no canvas");
  brush.fillStyle = readColours().bg;
  brush.fillRect(0, 0, canvas.width, canvas.height);
  brush.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, bad) => {
    /** @param {Blob | null} blob */
    const take = (blob) => (blob ? done(blob) : bad(new Error("no picture")));
    canvas.toBlob(take, "image/png");
  });
}

/**
 * Draw all figures of a stage whose panels are open.
 * @param {HTMLElement} root
 * @param {(card: Element) => string} nameOf path of a figure, without its ending
 * @param {Record<string, string | Uint8Array<ArrayBuffer>>} packed path -> content, gets the figures
 */
export async function drawFigures(root, nameOf, packed) {
  for (const card of listFigures(root)) {
    const name = nameOf(card);
    // One failed figure must not stop the others.
    try {
      packed[`${name}.svg`] = (await figureSvg(card)).text;
      packed[`${name}.png`] = new Uint8Array(await (await figurePng(card)).arrayBuffer());
    } catch {
      packed[`${name}.txt`] = NO_PICTURE;
    }
  }
}
