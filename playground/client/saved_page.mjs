// A run with all its pictures as one HTML file that needs no server.
import { plotlySource } from "../../visualizers/shared/plotly.mjs";
import { trace } from "../../visualizers/shared/record.mjs";
import { styles } from "./figures.mjs";

const NOT_SAVED = ["family", "export"];
const LOOKS =
  "body { margin: 0 auto; max-width: 960px; padding: 16px; background: var(--dp-bg); font-family: system-ui, sans-serif; }";
const CLOSE = "</script>";

// Text inside a script element: nothing in it may close the element.
const safe = (text) => text.replace(/<\/(script)/gi, "<\\/$1").replace(/<!-{2}/g, "<\\!--");
const json = (value) => JSON.stringify(value).replace(/</g, "\\u003c");
const fetched = async (url) => (await fetch(url)).text();

/** @param {Run} run */
export async function savedPage(run, visuals) {
  const scripts = await fetched(new URL("./saved.mjs", import.meta.url).href);
  const plotly = await fetched(plotlySource());
  const dark = document.querySelector(".dark") ? ' class="dark"' : "";
  const name = `${run.strategy}, seed ${run.seed}`;
  const data = {
    trace: trace(run),
    shown: run.shown,
    fields: run.fields,
    texts: run.texts,
    visuals: visuals.filter((v) => !NOT_SAVED.includes(v)),
  };
  return [
    `<!doctype html><html lang="en"${dark}><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${name}</title>`,
    `<style>${styles()}\n${LOOKS}</style></head>`,
    `<body class="gradio-container"><div class="dp-head"><h1>${name}</h1><p>A recorded run; every picture is drawn from the record in this file.</p></div><div class="dp-stage"></div>`,
    `<script>${safe(plotly)}\n${CLOSE}`,
    `<script type="application/json" id="run">${json(data)}${CLOSE}`,
    `<script type="module">${safe(scripts)}\nopen(JSON.parse(document.getElementById("run").textContent));${CLOSE}</body></html>`,
  ].join("\n");
}
