// Loads Plotly when the first chart needs it, because it is
// 4.8 MB. A saved page may already contain it.
import { el } from "./dom.mjs";

/** @returns {any} */
const getPlotly = () => /** @type {any} */ (window).Plotly;

let plotlyUrl = "";
/** @type {Promise<any> | null} */
let plotlyPromise = null;

/** @param {string} url */
export function setPlotlyUrl(url) {
  plotlyUrl = url;
}

export function loadPlotly() {
  if (!plotlyPromise) plotlyPromise = getPlotly() ? Promise.resolve(getPlotly()) : fetchPlotly();
  return plotlyPromise;
}

const fetchPlotly = () =>
  new Promise((ok, bad) => {
    const script = el("script", { src: plotlyUrl });
    script.onload = () => ok(getPlotly());
    script.onerror = bad;
    document.head.append(script);
  });

/**
 * Plotly adds its own method `on` to the element of a plot.
 * @param {HTMLElement} plot
 * @param {(event: any) => void} act
 */
export function onClick(plot, act) {
  /** @type {any} */ (plot).on("plotly_click", act);
}

/** @param {HTMLElement} plot */
export function purgePlot(plot) {
  getPlotly().purge(plot);
}
