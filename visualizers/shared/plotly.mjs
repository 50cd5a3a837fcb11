// Loads Plotly when the first chart needs it, because it is
// 4.8 MB. A saved page may already contain it.
import { el } from "./dom.mjs";

/** @returns {any} */
const there = () => /** @type {any} */ (window).Plotly;

let source = "";
let coming = null;

export function plotlyFrom(url) {
  source = url;
}

export function plotly() {
  if (!coming) coming = there() ? Promise.resolve(there()) : fetched();
  return coming;
}

const fetched = () =>
  new Promise((ok, bad) => {
    const script = el("script", { src: source });
    script.onload = () => ok(there());
    script.onerror = bad;
    document.head.append(script);
  });

// Plotly adds its own method `on` to the element of a plot.
export function onClick(plot, act) {
  /** @type {any} */ (plot).on("plotly_click", act);
}

export function forget(plot) {
  there().purge(plot);
}
