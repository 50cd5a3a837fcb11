// Many draws: one prompt, many seeds, and the tree of what came.

import { prefixTree } from "../../visualizers/prefix_tree/view.mjs";
import { el } from "../../visualizers/shared/dom.mjs";
import { Field } from "./field.mjs";
import { Form } from "./form.mjs";
import { Models } from "./models.mjs";
import { goAndStop, press } from "./press.mjs";
import { store } from "./runs.mjs";
import { declared, strategyOf } from "./spec.mjs";
import { layout, promptField } from "./tab.mjs";

const KEY = "draws";
const ABOUT =
  "Sample the same prompt with many seeds. The width of a branch is how often it was drawn; beside it stands the probability the model gave it, computed exactly. With more draws the two come closer.";

export function mountDraws(root, trigger) {
  const { draws, seed } = declared();
  const tree = el("div", { id: "draws-tree", class: "dp-stage dp-draws" });
  const shown = prefixTree(tree);
  const models = new Models(strategyOf("sampling"), "draws");
  const first = new Field({ ...seed, label: "First seed" }, "draws-seed");
  const form = new Form(draws.params, "draws");
  const run = () => {
    const { draws: count, ...params } = form.values();
    const asked = {
      prompt: prompt.area.value,
      ...models.values(),
      draws: count,
      seed: first.value,
      params,
    };
    press(KEY, () => trigger("input", asked));
  };
  const prompt = promptField("draws-prompt", draws.prompt, run);
  const stop = (id) => trigger("stop", { id });
  layout(root, "Many draws", ABOUT, {
    ask: [prompt.box, goAndStop("draws", "Draw", KEY, run, stop)],
    right: tree,
    settings: [...models.boxes, first.box, form.box],
  });
  first.value = 0;
  store.watch({ active: (key) => key === KEY && shown.say(store.activity(KEY)) });
  return { receive: (text) => text && receive(JSON.parse(text), shown) };
}

function receive(message, shown) {
  const { kind, id: run, phase, says } = message;
  store.heard = performance.now();
  if (kind === "progress") store.goesOn({ strategy: KEY, run, phase, says });
  else if (kind === "running") store.goesOn({ strategy: KEY, run, phase: "decoding", says: "" });
  else store.act(KEY, null);
  if (kind !== "progress") shown.show(message);
}
