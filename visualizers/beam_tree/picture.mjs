// Export of a beam tree as SVG with its styles inside, or as PNG.
import { readColours } from "../shared/colours.mjs";
import { downloadUrl, el, setAttributes, svg } from "../shared/dom.mjs";
import { makeVisible, quoteText } from "../shared/text.mjs";

/** @import { Canvas } from "./canvas.mjs" */
/** @import { Layout } from "./layout.mjs" */

const TITLE_HEIGHT = 26;
const MAX_PIXELS = 16e6;
const MAX_SIDE = 16000;
const TITLE_SETTINGS = [
  "num_beams",
  "num_beam_groups",
  "diversity_penalty",
  "length_penalty",
  "early_stopping",
];

/**
 * A copy of the drawing without selection, focus and scroll position.
 * @param {Canvas} canvas
 */
function cloneForExport(canvas) {
  const copy = canvas.whole();
  /**
   * @param {string} query
   * @param {(node: Element) => void} change
   */
  const each = (query, change) => copy.querySelectorAll(query).forEach(change);
  each(".away, .bt-selected-step", (n) => n.remove());
  each(".far", (n) => n.classList.remove("far"));
  each(".bt-fixed", (n) => n.removeAttribute("transform"));
  each("[tabindex]", (n) => n.removeAttribute("tabindex"));
  each(".sel", (n) => n.classList.remove("sel"));
  return copy;
}

/** @param {CSSStyleSheet} sheet */
function readRules(sheet) {
  try {
    return [...sheet.cssRules];
  } catch {
    return []; // reading the rules of a style sheet from another origin throws an error
  }
}

/**
 * The page's style rules for trees, with colour variables replaced by values.
 * @param {Element} canvas
 * @param {Record<string, string>} shades
 */
function collectStyles(canvas, shades) {
  const style = getComputedStyle(canvas);
  return [...document.styleSheets]
    .flatMap(readRules)
    .filter((rule) => rule instanceof CSSStyleRule && rule.selectorText.includes(".bt-"))
    .map((rule) => rule.cssText)
    .join("\n")
    .replace(
      /var\(--([\w-]+)\)/g,
      (_, name) => shades[name.replace("dp-", "")] || style.getPropertyValue(`--${name}`).trim(),
    );
}

/** @param {Run} run */
function pictureTitle(run) {
  const settings = TITLE_SETTINGS.filter((key) => run.config[key] !== undefined);
  return [
    run.strategy.replaceAll("_", " "),
    settings.map((key) => `${key} ${run.config[key]}`).join(" · "),
    run.model.id,
    run.prompt ? quoteText(makeVisible(run.prompt)) : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

/**
 * @param {Run} run
 * @param {Canvas} canvas
 * @param {Layout} layout
 */
function serializeTree(run, canvas, { width, height }) {
  const copy = cloneForExport(canvas);
  const shades = readColours();
  const attrs = {
    xmlns: "http://www.w3.org/2000/svg",
    width,
    height: height + TITLE_HEIGHT,
    viewBox: `0 ${-TITLE_HEIGHT} ${width} ${height + TITLE_HEIGHT}`,
    class: canvas.node.classList.value.replace("tiny", ""),
  };
  setAttributes(copy, attrs);
  const letters = {
    x: 12,
    y: -9,
    fill: shades.muted,
    "font-size": 12,
    "font-family": "system-ui, sans-serif",
  };
  copy.prepend(
    svg("style", {}, collectStyles(canvas.node, shades)),
    svg("rect", { y: -TITLE_HEIGHT, width, height: height + TITLE_HEIGHT, fill: shades.bg }),
    svg("text", letters, pictureTitle(run)),
  );
  return new XMLSerializer().serializeToString(copy);
}

/**
 * Scale of the PNG: 2, or less for very long trees, because
 * browsers limit a canvas's sides and area.
 * @drawing
 * @param {number} width
 * @param {number} tall
 */
function pngScale(width, tall) {
  const area = Math.sqrt(MAX_PIXELS / (width * tall));
  return Math.min(2, area, MAX_SIDE / Math.max(width, tall));
}

/**
 * @param {Run} run
 * @param {Canvas} canvas
 * @param {Layout} layout
 * @param {"svg" | "png"} kind
 */
export async function saveTree(run, canvas, layout, kind) {
  const name = `${run.strategy}-tree.${kind}`;
  const text = serializeTree(run, canvas, layout);
  const source = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  if (kind === "svg") return downloadUrl(source, name);
  const image = new Image();
  await new Promise((ok, bad) => {
    image.onload = ok;
    image.onerror = bad;
    image.src = source;
  });
  const { width } = layout;
  const tall = layout.height + TITLE_HEIGHT;
  const factor = pngScale(width, tall);
  const sheet = el("canvas", {
    width: Math.floor(width * factor),
    height: Math.floor(tall * factor),
  });
  sheet.getContext("2d")?.drawImage(image, 0, 0, sheet.width, sheet.height);
  sheet.toBlob((blob) => {
    if (blob) downloadUrl(URL.createObjectURL(blob), name);
  }, "image/png");
  URL.revokeObjectURL(source);
}

/**
 * @param {Run} run
 * @param {Canvas} canvas
 * @param {Layout} layout
 */
export const createTreePicture = (run, canvas, layout) => ({
  text: serializeTree(run, canvas, layout),
  width: layout.width,
  height: layout.height + TITLE_HEIGHT,
});
