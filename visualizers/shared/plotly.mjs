// Plotly comes when the first chart wants it, from the server that the page comes from, unless the page
// holds it already.
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

// Plotly gives a plot its own way to listen.
export function onClick(plot, act) {
  /** @type {any} */ (plot).on("plotly_click", act);
}

export function forget(plot) {
  there().purge(plot);
}
