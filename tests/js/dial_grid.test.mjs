// The map of two dials: asked for, drawn so that equal texts look alike, and read with pointer and keys.
import assert from "node:assert/strict";
import { test } from "node:test";
import { click, drawn, paint, press } from "./stage.mjs";

const { drawGrid, findCell, findGridPlace, textLetters } = await import(
  "../../visualizers/dial_map/grid_picture.mjs"
);

const WIDTH = 1040;
globalThis.ResizeObserver = class {
  constructor(resized) {
    this.resized = resized;
  }
  observe() {
    this.resized([{ contentRect: { width: WIDTH } }]);
  }
};

/** A map of two rows: the upper one has the run's text, then another; the lower one only the run's. */
function gridOf(ids, pieces) {
  const cell = (row, low, high, text) => ({ row, low, high, text, sure: true });
  const figures = (tokens) => ({ perplexity: 2, rep_3: 0, distinct_2: 1, tokens });
  return {
    ...{ dial: "temperature", low: 0, high: 2, value: 0.4, second: "top_p", second_value: 0.5 },
    ...{ values: [0.5, 1], pieces, notes: [] },
    cells: [cell(0, 0, 2, 0), cell(1, 0, 0.5, 0), cell(1, 0.5, 2, 1)],
    texts: [
      { token_ids: ids.slice(0, 3), end: "cut" },
      { token_ids: [ids[0], ids[3], ids[4]], end: "length" },
    ],
    view: {
      edges: [
        [0, 2],
        [0, 0.5],
        [0.5, 2],
      ],
      figures: [figures(3), figures(3)],
    },
  };
}

const STRETCH = { low: 0, high: 2, token_ids: [], end: "cut", sure: true };
const MAP = {
  ...{ dial: "temperature", low: 0, high: 2, value: 0.4, pieces: {}, notes: [], reason: "" },
  intervals: [STRETCH],
  view: { edges: [0, 2], rows: 0, cells: [], figures: [{}], two_dials_s: 12 },
};

/** A stage that can ask for the map of two dials; `answer` is what the request comes to. */
async function stageWith(answer) {
  const made = await drawn("sampling-1", "dial_map");
  const { root, stages, run } = made;
  const asked = [];
  const turned = [];
  const grids = {
    fetch: async (wanted) => {
      asked.push(wanted.id);
      return answer(wanted);
    },
    stop: () => asked.push("stop"),
  };
  const turn = (dial, value) => turned.push([dial, value]);
  run.maps = { temperature: MAP };
  stages.mount(root, { strategy: "x", visuals: ["dial_map"], turn, grids }, () => {});
  stages.list[0].unfold();
  run.selected = 2;
  await paint();
  return { ...made, asked, turned };
}

test("the map of two dials says what it costs, can be stopped, and is drawn once it is there", async () => {
  let done = () => {};
  const { root, text, asked, run } = await stageWith(
    () => new Promise((resolve) => (done = resolve)),
  );
  assert.match(text(".gd-part > .dp-note"), /about 12.0 s/);
  const [ask, stop] = root.querySelectorAll(".gd-offer button");
  assert.ok(root.querySelector(".gd-picture").hidden && stop.hidden);
  await click(ask);
  assert.ok(ask.hidden && !stop.hidden);
  await click(stop);
  assert.deepEqual(asked, [run.id, "stop"]);
  done("Stopped.");
  await new Promise(setImmediate);
  assert.equal(text(".gd-part > .dp-note"), "Stopped.");
  assert.ok(!ask.hidden && stop.hidden);
});

test("keys and the pointer go from cell to cell, and the values are handed to the form", async () => {
  const { root, text, all, turned } = await stageWith(async (run) => {
    run.grid = gridOf(run.outputs[0].token_ids, run.pieces);
    return "";
  });
  await click(root.querySelector(".gd-offer button"));
  await paint();
  assert.match(text(".gd-part > .dp-note"), /This seed writes 2 texts here/);
  const box = root.querySelector(".gd-box");
  assert.match(
    text(".gd-picture > .di-caption"),
    /Temperature 0.40 · Top-p 0.5 · text A · in 2 cells/,
  );
  assert.equal(all(".gd-same").length, 2);
  assert.equal(text(".gd-text .di-new"), "");
  await press(box, "ArrowUp");
  await press(box, "ArrowRight");
  assert.match(
    text(".gd-picture > .di-caption"),
    /Temperature 1.25 · Top-p 1 · text B · in 1 cell/,
  );
  assert.notEqual(text(".gd-text .di-new"), "");
  assert.match(box.getAttribute("aria-valuetext"), /text B/);
  await click(root.querySelector(".gd-picture .di-acts .dp-btn"));
  assert.deepEqual(turned, [
    ["temperature", 1.25],
    ["top_p", 1],
  ]);
});

test("equal texts have one look, another text another pattern, and the run's setting a circle", () => {
  const grid = gridOf([1, 2, 3, 4, 5], {});
  const picture = drawGrid(grid, [1, 2, 3], WIDTH);
  const looks = [...picture.querySelectorAll("g")].map((node) =>
    [
      node.querySelector(".gd-letter").textContent,
      node.querySelector(".gd-cell").style.getPropertyValue("--gd-depth"),
      node.querySelector("rect[fill]") !== null,
    ].join(),
  );
  assert.deepEqual(looks, ["A,62%,false", "A,62%,false", "B,21%,true"]);
  const circle = picture.querySelector(".gd-own");
  assert.deepEqual([circle.getAttribute("cx"), circle.getAttribute("cy")], ["240", "30"]);
  assert.equal(drawGrid({ ...grid, second_value: null }, [], WIDTH).querySelector(".gd-own"), null);
  assert.deepEqual(findGridPlace(grid, WIDTH, 540, 5), { value: 1, row: 1 });
  assert.equal(findCell(grid, 1, 1), 2);
  assert.equal(findCell(grid, 0, 1), 0);
  assert.deepEqual([0, 25, 26, 701, 702].map(textLetters), ["A", "Z", "AA", "ZZ", "AAA"]);
});
