// The row of tabs: it waits for Gradio, whatever a visitor does on a page that is not drawn yet.
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseHTML } from "linkedom";

const { window, document } = parseHTML('<html><body><div class="dp-places"></div></body></html>');
const visitor = new EventTarget();
const frames = [];
class Observer {
  observe() {}
}
Object.assign(globalThis, {
  window,
  document,
  Element: window.Element,
  HTMLElement: window.HTMLElement,
  MutationObserver: Observer,
  addEventListener: visitor.addEventListener.bind(visitor),
  requestAnimationFrame: (act) => frames.push(act),
});
const { waitUntilFound } = await import("../../playground/client/shell/polling.mjs");
const { setDeclaration } = await import("../../playground/client/shell/spec.mjs");
const { mountStrategyStrip } = await import("../../playground/client/shell/strategy_strip.mjs");

const nextFrame = () => {
  for (const act of frames.splice(0)) act();
};

test("a key ends the wait for a tab that was asked for before, and not the wait for the row", () => {
  setDeclaration({
    params: {},
    strategies: [
      { name: "beam_search", params: [], group: "search", plain_name: "Beams" },
      { name: "beam_sampling", params: [], group: "search", plain_name: "Drawn beams" },
    ],
    strategy_groups: { search: "Search" },
  });
  let opened = false;
  waitUntilFound(
    () => document.querySelector("[role=tab]"),
    () => {
      opened = true;
    },
  );
  mountStrategyStrip();
  visitor.dispatchEvent(new Event("keydown"));
  document.body.className = "gradio-container";
  document.body.insertAdjacentHTML(
    "beforeend",
    `<div id="strategies"><div class="tab-wrapper"><div role="tablist">
      <button role="tab" data-tab-id="beam_search" aria-selected="true">Beam search</button>
      <button role="tab" data-tab-id="beam_sampling">Beam sampling</button>
    </div></div></div>`,
  );
  nextFrame();
  assert.equal(opened, false);
  assert.equal(document.querySelector("[role=tablist]").dataset.group, "Search");
});
