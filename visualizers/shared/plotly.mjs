// Plotly comes when the first chart wants it, and from the server that the page comes from.
import { el } from "./dom.mjs";

let source = "";
let coming = null;

export function plotlyFrom(url) {
  source = url;
}

export const plotlySource = () => source;

export function plotly() {
  if (!coming) coming = fetched();
  return coming;
}

const fetched = () =>
  new Promise((ok, bad) => {
    const script = el("script", { src: source });
    script.onload = () => ok(window.Plotly);
    script.onerror = bad;
    document.head.append(script);
  });
