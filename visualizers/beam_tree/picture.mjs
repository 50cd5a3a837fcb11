import { colours } from "../shared/colours.mjs";
import { el, give, svg } from "../shared/dom.mjs";
import { visible } from "../shared/text.mjs";

const HEAD = 26,
  MOST_PIXELS = 16e6,
  LONGEST = 16000;

function standalone(run, canvas, width, height) {
  const copy = canvas.cloneNode(true),
    shades = colours(),
    style = getComputedStyle(canvas);
  copy.querySelectorAll(".away, .bt-now").forEach((n) => n.remove());
  copy.querySelectorAll(".far").forEach((n) => n.classList.remove("far"));
  copy.querySelectorAll(".bt-pin").forEach((n) => n.removeAttribute("transform"));
  copy.querySelectorAll("[tabindex]").forEach((n) => n.removeAttribute("tabindex"));
  copy.querySelectorAll(".sel").forEach((n) => n.classList.remove("sel"));
  const rules = [...document.styleSheets]
    .flatMap((sheet) => {
      try {
        return [...sheet.cssRules];
      } catch {
        return [];
      }
    })
    .filter((r) => r.selectorText?.includes(".bt-"))
    .map((r) => r.cssText)
    .join("\n")
    .replace(
      /var\(--dp-(\w+)\)/g,
      (_, name) => shades[name] || style.getPropertyValue(`--dp-${name}`).trim(),
    );
  const setting = [
    "num_beams",
    "num_beam_groups",
    "diversity_penalty",
    "length_penalty",
    "early_stopping",
  ]
    .filter((k) => run.config[k] !== undefined)
    .map((k) => `${k} ${run.config[k]}`)
    .join(" · ");
  const title = [
    run.strategy.replaceAll("_", " "),
    setting,
    run.model.id,
    run.prompt ? `“${visible(run.prompt)}”` : "",
  ]
    .filter(Boolean)
    .join(" · ");
  for (const [key, value] of Object.entries({
    xmlns: "http://www.w3.org/2000/svg",
    width,
    height: height + HEAD,
    viewBox: `0 ${-HEAD} ${width} ${height + HEAD}`,
    class: canvas.getAttribute("class").replace("tiny", ""),
  }))
    copy.setAttribute(key, value);
  copy.prepend(
    svg("style", {}, rules),
    svg("rect", { y: -HEAD, width, height: height + HEAD, fill: shades.bg }),
    svg(
      "text",
      { x: 12, y: -9, fill: shades.muted, "font-size": 12, "font-family": "system-ui, sans-serif" },
      title,
    ),
  );
  return new XMLSerializer().serializeToString(copy);
}
// Browsers limit a picture's sides and area, so very long trees come out smaller than double size.
export async function saveTree(run, canvas, width, height, kind) {
  const name = `${run.strategy}-tree.${kind}`,
    source = URL.createObjectURL(
      new Blob([standalone(run, canvas, width, height)], { type: "image/svg+xml" }),
    );
  if (kind === "svg") return give(source, name);
  const image = new Image(),
    tall = height + HEAD,
    factor = Math.min(2, Math.sqrt(MOST_PIXELS / (width * tall)), LONGEST / Math.max(width, tall));
  await new Promise((ok, bad) => {
    image.onload = ok;
    image.onerror = bad;
    image.src = source;
  });
  const sheet = el("canvas", {
    width: Math.floor(width * factor),
    height: Math.floor(tall * factor),
  });
  sheet.getContext("2d").drawImage(image, 0, 0, sheet.width, sheet.height);
  sheet.toBlob((blob) => give(URL.createObjectURL(blob), name), "image/png");
  URL.revokeObjectURL(source);
}
export const treePicture = (run, canvas, width, height) => ({
  text: standalone(run, canvas, width, height),
  width,
  height: height + HEAD,
});
