// What a page of one run has around its stage: its elements, its glossary and its colours.

import { setFilterTitles } from "../shared/processors.mjs";
import { setGlossary } from "../shared/terms.mjs";

/**
 * An element that is part of every saved page.
 * @param {string} selector
 * @returns {HTMLElement}
 */
export function find(selector) {
  const node = document.querySelector(selector);
  if (!(node instanceof HTMLElement)) throw new Error(selector);
  return node;
}

/**
 * @param {string} name of the run
 * @param {string} says one sentence below the name
 * @param {boolean | null} dark null for the colours around the page's frame
 */
export function preparePage(name, says, dark) {
  setGlossary(JSON.parse(find("#terms").textContent ?? ""));
  setFilterTitles(JSON.parse(find("#filters").textContent ?? ""));
  document.documentElement.classList.toggle("dark", dark ?? isDarkAround(window.frameElement));
  document.title = name;
  find("h1").textContent = name;
  find(".dp-head p").textContent = says;
}

/**
 * Whether light text is written around a frame, or wanted where that cannot be seen. Notebooks have
 * no common sign of a dark theme, but each gives its text a colour.
 * @param {Element | null} frame
 */
export function isDarkAround(frame) {
  const around = frame?.parentElement;
  if (!around) return matchMedia("(prefers-color-scheme: dark)").matches;
  const [red, green, blue] = readColour(getComputedStyle(around).color);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 127;
}

/**
 * The bytes of a colour. A notebook may give it in any of CSS's forms, such as color(srgb …), which only
 * the browser reads.
 * @param {string} colour
 */
function readColour(colour) {
  const brush = document.createElement("canvas").getContext("2d");
  if (!brush) return [0, 0, 0];
  brush.fillStyle = colour;
  brush.fillRect(0, 0, 1, 1);
  return brush.getImageData(0, 0, 1, 1).data;
}
