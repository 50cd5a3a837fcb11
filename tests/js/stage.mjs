// A stage that draws recorded runs on a page without a layout: every box has one size, in which a whole
// tree is in sight, and what waits for a frame or for a time comes when a test paints.
import { execFileSync } from "node:child_process";
import { parseHTML } from "linkedom";
import { open as read, recorded } from "./traces.mjs";
import { ROOT } from "./types.mjs";

const [WIDE, HIGH] = [1440, 1000];
const PAGE = '<!doctype html><html lang="en"><head></head><body></body></html>';
const { window, document } = parseHTML(PAGE);
const { Element, Event, HTMLElement, Node } = window;
const waiting = [];
const later = (act) => waiting.push(act);

class Observer {
  observe() {}
  disconnect() {}
}

for (const [name, value] of Object.entries({
  clientWidth: 100 * WIDE,
  clientHeight: 100 * HIGH,
  scrollWidth: 0,
  scrollHeight: 0,
  offsetLeft: 0,
  offsetTop: 0,
  offsetWidth: 20,
  offsetHeight: 20,
  scrollLeft: 0,
  scrollTop: 0,
}))
  Object.defineProperty(Element.prototype, name, { value, writable: true, configurable: true });
Element.prototype.getBoundingClientRect = () => ({ left: 0, top: 0, width: 20, height: 20 });
Element.prototype.getClientRects = () => [{}];
Element.prototype.getAnimations = () => [];
Object.assign(window, {
  // What Plotly is asked to draw stands at its element.
  Plotly: {
    react: (node, data, layout) => Object.assign(node, { data, layout, on() {} }),
    purge() {},
  },
});
Object.assign(globalThis, {
  window,
  document,
  Element,
  Event,
  HTMLElement,
  Node,
  innerWidth: WIDE,
  innerHeight: HIGH,
  addEventListener() {},
  requestAnimationFrame: later,
  setTimeout: later,
  clearTimeout() {},
  ResizeObserver: Observer,
  IntersectionObserver: Observer,
  MutationObserver: Observer,
  matchMedia: () => ({ matches: false, addEventListener() {} }),
  getComputedStyle: () => ({ getPropertyValue: () => "" }),
  reportError(error) {
    throw error;
  },
});

// They look at the page as soon as they are imported.
const { VIEWS } = await import("../../visualizers/stage/views.mjs");
const { Stages } = await import("../../visualizers/stage/stage.mjs");
const { Recordings } = await import("../../visualizers/stage/recordings.mjs");

/** Draw all that waits, and what that makes wait. */
export async function paint() {
  for (let rounds = 0; waiting.length; rounds++) {
    if (rounds > 100) throw new Error("the page does not come to rest");
    for (const act of waiting.splice(0)) act();
    await null;
    await new Promise(setImmediate);
  }
}

/**
 * Draw a run on a stage of its own with some pictures, every panel open.
 * @param {{ trace: any, shown: any }} given the run, as the server sends it
 */
export async function stageOf(given, ...visuals) {
  const root = document.createElement("div");
  document.body.replaceChildren(root);
  const runs = new Recordings();
  const stages = new Stages(runs);
  stages.register(VIEWS);
  stages.mount(root, { strategy: "x", visuals }, () => {});
  stages.list[0].unfold();
  const run = runs.showTrace("x", structuredClone(given), "replayed");
  await paint();
  const all = (query) => [...root.querySelectorAll(query)];
  return {
    root,
    run,
    stages,
    trace: given.trace,
    all,
    texts: (query) => all(query).map((node) => node.textContent.trim()),
    text: (query = "*") => root.querySelector(query).textContent,
    select: async (index, node) => {
      runs.select(run, index, node);
      await paint();
    },
    preview: async (preview) => {
      stages.setPreview("x", preview);
      await paint();
    },
    rewind: async (count) => {
      runs.rewind(run, count, "replayed");
      await paint();
    },
  };
}

/** Draw a run of the gallery. */
export async function drawn(name, ...visuals) {
  return stageOf(recorded(await read(name)), ...visuals);
}

const MADE = `
import json, sys
from tests.helpers import forwards
from visualizers import list_visuals
from visualizers.page import to_recording
made = {call: eval(f"forwards.{call}") for call in sys.argv[1:]}
print(json.dumps({call: to_recording(one, list_visuals(one)) for call, one in made.items()}))
`;

/** Return runs that were seen from outside, by the calls of `tests.helpers.forwards` that make them. */
export function seenFromOutside(...calls) {
  const python = process.env.PYTHON ?? "python3";
  const options = { cwd: ROOT, maxBuffer: 2 ** 28, encoding: "utf8" };
  return JSON.parse(execFileSync(python, ["-c", MADE, ...calls], options));
}

/** Do to an element what a person does, and draw what comes of it. */
export async function act(node, kind, fields = {}) {
  const event = new Event(kind, { bubbles: true, cancelable: true });
  node.dispatchEvent(Object.assign(event, fields));
  await paint();
}

export const click = (node) => act(node, "click");
export const press = (node, key) => act(node, "keydown", { key });

/** Type a number or move a slider. */
export function enter(field, value) {
  field.value = String(value);
  return act(field, "input");
}

/** Choose an option of a list. */
export function choose(list, value) {
  for (const option of list.options) option.toggleAttribute("selected", option.value === value);
  return act(list, "change");
}

/** Open or close what is folded. */
export function unfold(node, open = true) {
  node.open = open;
  return act(node, "toggle");
}
