// Export of a beam tree as SVG with its styles inside, or as PNG.
import { colours } from "../shared/colours.mjs";
import { el, give, svg } from "../shared/dom.mjs";
import { visible } from "../shared/text.mjs";

const HEAD = 26;
const MOST_PIXELS = 16e6;
const LONGEST = 16000;
const SETTINGS = [
  "num_beams",
  "num_beam_groups",
  "diversity_penalty",
  "length_penalty",
  "early_stopping",
];

// A copy of the drawing without selection, focus and scroll position.
function cleaned(canvas) {
  const copy = canvas.whole();
  const each = (query, change) => copy.querySelectorAll(query).forEach(change);
  each(".away, .bt-now", (n) => n.remove());
  each(".far", (n) => n.classList.remove("far"));
  each(".bt-pin", (n) => n.removeAttribute("transform"));
  each("[tabindex]", (n) => n.removeAttribute("tabindex"));
  each(".sel", (n) => n.classList.remove("sel"));
  return copy;
}

function rulesOf(sheet) {
  try {
    return [...sheet.cssRules];
  } catch {
    return []; // reading the rules of a style sheet from another origin throws an error
  }
}

// The page's style rules for trees, with colour variables replaced by values.
function stylesOf(canvas, shades) {
  const style = getComputedStyle(canvas);
  return [...document.styleSheets]
    .flatMap(rulesOf)
    .filter((rule) => rule.selectorText?.includes(".bt-"))
    .map((rule) => rule.cssText)
    .join("\n")
    .replace(
      /var\(--dp-(\w+)\)/g,
      (_, name) => shades[name] || style.getPropertyValue(`--dp-${name}`).trim(),
    );
}

/** @param {Run} run */
function titleOf(run) {
  const settings = SETTINGS.filter((key) => run.config[key] !== undefined);
  return [
    run.strategy.replaceAll("_", " "),
    settings.map((key) => `${key} ${run.config[key]}`).join(" · "),
    run.model.id,
    run.prompt ? `“${visible(run.prompt)}”` : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

/** @param {Run} run */
function standalone(run, canvas, width, height) {
  const copy = cleaned(canvas);
  const shades = colours();
  const attrs = {
    xmlns: "http://www.w3.org/2000/svg",
    width,
    height: height + HEAD,
    viewBox: `0 ${-HEAD} ${width} ${height + HEAD}`,
    class: canvas.node.getAttribute("class").replace("tiny", ""),
  };
  for (const [key, value] of Object.entries(attrs)) copy.setAttribute(key, value);
  const letters = {
    x: 12,
    y: -9,
    fill: shades.muted,
    "font-size": 12,
    "font-family": "system-ui, sans-serif",
  };
  copy.prepend(
    svg("style", {}, stylesOf(canvas.node, shades)),
    svg("rect", { y: -HEAD, width, height: height + HEAD, fill: shades.bg }),
    svg("text", letters, titleOf(run)),
  );
  return new XMLSerializer().serializeToString(copy);
}

/**
 * Scale of the PNG: 2, or less for very long trees, because
 * browsers limit a canvas's sides and area.
 * @drawing
 */
function factorOf(width, tall) {
  const area = Math.sqrt(MOST_PIXELS / (width * tall));
  return Math.min(2, area, LONGEST / Math.max(width, tall));
}

/** @param {Run} run */
export async function saveTree(run, canvas, width, height, kind) {
  const name = `${run.strategy}-tree.${kind}`;
  const text = standalone(run, canvas, width, height);
  const source = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  if (kind === "svg") return give(source, name);
  const image = new Image();
  await new Promise((ok, bad) => {
    image.onload = ok;
    image.onerror = bad;
    image.src = source;
  });
  const tall = height + HEAD;
  const factor = factorOf(width, tall);
  const sheet = el("canvas", {
    width: Math.floor(width * factor),
    height: Math.floor(tall * factor),
  });
  sheet.getContext("2d").drawImage(image, 0, 0, sheet.width, sheet.height);
  sheet.toBlob((blob) => give(URL.createObjectURL(blob), name), "image/png");
  URL.revokeObjectURL(source);
}

/** @param {Run} run */
export const treePicture = (run, canvas, width, height) => ({
  text: standalone(run, canvas, width, height),
  width,
  height: height + HEAD,
});
