// The dial map as a picture: its cells, the line that is moved over it, and the figures of each text.
import assert from "node:assert/strict";
import { test } from "node:test";
import { click, drawn, paint, press } from "./stage.mjs";

const { drawCells, drawFigure, fitWord, valueAt } = await import(
  "../../visualizers/dial_map/picture.mjs"
);

const WIDTH = 1000;
globalThis.ResizeObserver = class {
  constructor(resized) {
    this.resized = resized;
  }
  observe() {
    this.resized([{ contentRect: { width: WIDTH } }]);
  }
};

/** A map of two texts that share their first word; the end of the second is not known. */
function mapOf(ids, pieces) {
  const [own, other] = [ids.slice(0, 3), [ids[0], ids[3], ids[4]]];
  const stretch = (low, high, token_ids, end) => ({ low, high, token_ids, end, sure: true });
  const text = (list) => list.map((id) => pieces[id]).join("");
  return {
    ...{ dial: "temperature", low: 0, high: 2, value: 0.4, pieces, notes: [], reason: "" },
    intervals: [stretch(0, 0.5, own, "cut"), stretch(0.5, 2, other, "not_followed")],
    view: {
      edges: [0, 0.5, 2],
      rows: 2,
      cells: [
        [0, 0, 1, text(ids.slice(0, 1)), 1],
        [1, 0, 0, text(own.slice(1)), 1],
        [1, 1, 1, text(other.slice(1)), 40],
      ],
      figures: [
        { perplexity: 2, rep_3: 0, distinct_2: 1, tokens: 3 },
        { perplexity: 30, rep_3: 0.25, distinct_2: 0.5, tokens: 3 },
      ],
    },
  };
}

/** A stage with a run and the map of its temperature. */
async function mapped() {
  const stage = await drawn("sampling-1", "dial_map");
  const { run } = stage;
  const ids = run.outputs[0].token_ids;
  run.maps = { temperature: mapOf(ids, run.pieces) };
  await stage.select(3);
  return { ...stage, ids };
}

test("without a map the view says so, and has nothing to press", async () => {
  const { text, all } = await drawn("sampling-1", "dial_map");
  assert.match(text(".di-say"), /not known yet/);
  const parts = all(".di-picture, .di-text, .dp-row");
  assert.ok(parts.every((node) => node.hidden || node.closest(".gd-part")?.hidden));
});

test("a line shows the text at its value, and moves to the next text with a key", async () => {
  const { text, all, root } = await mapped();
  const box = root.querySelector(".di-box");
  assert.match(text(".di-say"), /2 different texts/);
  assert.equal(box.getAttribute("aria-valuenow"), "0.4");
  assert.match(
    text(".di-caption"),
    /Temperature 0.40 · Same 3 tokens from 0.00 to 0.50 · text 1 of 2/,
  );
  assert.equal(text(".di-new"), "");
  assert.deepEqual(
    all(".di-figure b").map((node) => node.textContent),
    ["2.00", "0 %", "100 %", "3"],
  );
  await press(box, "ArrowRight");
  assert.equal(box.getAttribute("aria-valuenow"), "1.25");
  assert.match(text(".di-caption"), /Text not known here/);
  assert.notEqual(text(".di-new"), "");
  assert.equal(all(".di-figure b")[0].textContent, "30.00");
  assert.equal(root.querySelector(".di-line").style.left, "62.5%");
  await press(box, "Home");
  assert.equal(box.getAttribute("aria-valuenow"), "0.25");
});

test("a value is handed to the form, where there is one", async () => {
  const { root, stages, run } = await mapped();
  assert.ok(root.querySelector(".di-acts .dp-btn").hidden);
  const turned = [];
  const turn = (dial, value) => turned.push([dial, value]);
  stages.mount(root, { strategy: "x", visuals: ["dial_map"], turn }, () => {});
  stages.list[0].unfold();
  run.selected = 2;
  await paint();
  await click(root.querySelector(".di-acts .dp-btn"));
  assert.deepEqual(turned, [["temperature", 0.4]]);
});

test("a cell is as wide as its stretch, deeper for a lower rank, and a figure has one step a text", () => {
  const pieces = { 1: " a", 2: " long", 3: " word", 4: " b", 5: " c" };
  const map = mapOf([1, 2, 3, 4, 5], pieces);
  const cells = [...drawCells(map, WIDTH).querySelectorAll("rect")];
  assert.deepEqual(
    cells.map((cell) => [cell.getAttribute("x"), cell.getAttribute("width")]),
    [
      ["0", "1000"],
      ["0", "250"],
      ["250", "750"],
    ],
  );
  const depths = cells.map((cell) =>
    Number.parseInt(cell.style.getPropertyValue("--di-depth"), 10),
  );
  assert.equal(depths[0], 0);
  assert.ok(depths[2] > 40);
  const path = drawFigure(map, "perplexity", WIDTH).querySelector("path").getAttribute("d");
  assert.equal(path, "M0.0 32.0H250.0L250.0 2.0H1000.0");
  assert.equal(fitWord(" extraordinary", 60), "extrao…");
  assert.equal(fitWord(" at", 12), "");
  assert.equal(valueAt(map, 1.5), 2);
});
