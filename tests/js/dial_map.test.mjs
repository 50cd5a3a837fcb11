// The map of a dial: which text a value gives, its track, and the text shown while the dial moves.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { drawn, paint } from "./stage.mjs";
import { open, recorded } from "./traces.mjs";

const { connectQuestions } = await import("../../playground/client/shell/questions.mjs");
const { store, stages } = await import("../../playground/client/shell/page_state.mjs");
const { DialPreview } = await import("../../playground/client/inspect/dial_preview.mjs");
const { DialTrack } = await import("../../playground/client/inspect/dial_track.mjs");
const { captionTexts, countShared, findPlace, formatStretch, moveOffEdge } = await import(
  "../../visualizers/dial_map/intervals.mjs"
);

const OWN = [5, 6, 7, 8];
const stretch = (low, high, token_ids, more = {}) => ({
  ...{ low, high, token_ids, end: "length", sure: true },
  ...more,
});
const MAP = {
  dial: "temperature",
  pieces: { 5: " a", 6: " b", 7: " c", 8: " d", 9: " e" },
  intervals: [
    stretch(0.1, 0.7, [5, 6, 9, 9]),
    stretch(0.7, 0.85, OWN),
    stretch(0.85, 0.85001, [5, 9, 9, 9], { sure: false }),
    stretch(0.85002, 2, [9, 9, 9, 9]),
  ],
};

test("a value gives the text of its stretch, and where it begins to differ", () => {
  assert.equal(findPlace(MAP, OWN, 0.8).first, null);
  assert.deepEqual(
    [0.3, 1.5].map((value) => findPlace(MAP, OWN, value).first),
    [2, 0],
  );
  assert.equal(findPlace(MAP, OWN, 0.850005), null, "too narrow to be sure");
  const cut = { ...MAP, intervals: [stretch(0.1, 2, OWN, { end: "not_followed" })] };
  assert.equal(findPlace(cut, OWN, 1), null, "a text without its end");
  assert.deepEqual([countShared([1, 2], [1, 2, 3]), countShared([1, 2], [3])], [2, 0]);
});

test("between two stops the nearer one counts", () => {
  const stops = { ...MAP, intervals: [stretch(0.5, 0.5, OWN), stretch(0.6, 0.6, [9])] };
  assert.deepEqual(
    [0.54, 0.56].map((value) => findPlace(stops, OWN, value).place),
    [0, 1],
  );
});

test("a run moves off an edge to the middle of its stretch, and else stays", () => {
  assert.equal(moveOffEdge(MAP, 0.75), 0.75);
  assert.equal(moveOffEdge(MAP, 0.8499), (0.7 + 0.85) / 2);
  assert.equal(moveOffEdge(MAP, 0.1), 0.1, "the end of the dial is no edge");
  assert.equal(moveOffEdge(MAP, 5), 5);
});

test("a caption names the stretch, and which text of how many it is", () => {
  const at = (value) => captionTexts(MAP, findPlace(MAP, OWN, value));
  assert.deepEqual(at(0.8), ["Same text from 0.70 to 0.85", "text 2 of 4"]);
  assert.deepEqual(at(0.3), ["New from token 3 on", "text 1 of 4"]);
  const cut = { ...MAP, intervals: [stretch(0.7, 0.85, [5, 6], { end: "cut" })] };
  assert.deepEqual(captionTexts(cut, findPlace(cut, OWN, 0.8)), [
    "Same 2 tokens from 0.70 to 0.85",
    "text 1 of 1",
  ]);
  assert.deepEqual(at(0.850005), ["Text not known here"]);
  assert.deepEqual(formatStretch(stretch(0.7012, 0.7034, [])), ["0.701", "0.703"]);
});

/** A slider in its box, with the track of a dial. */
function track() {
  const box = document.createElement("div");
  const slider = document.createElement("input");
  for (const [name, value] of Object.entries({ type: "range", min: "0", max: "2" }))
    slider.setAttribute(name, value);
  Object.assign(slider, { min: "0", max: "2" });
  box.append(slider);
  return { box, track: new DialTrack(slider) };
}

test("the track draws each stretch in its place, and nothing while the map is not known", () => {
  const made = track();
  made.track.show(undefined, OWN, 0.8, "x");
  assert.equal(made.box.querySelectorAll(".dm-known").length, 0);
  made.track.show(MAP, OWN, 0.8, "x");
  const parts = [...made.box.querySelectorAll(".dm-map > i")];
  assert.deepEqual(
    parts.map((node) => node.className.replace(/dm-(odd|even) ?/, "")),
    ["", "dm-own dm-here", "dm-unknown", ""],
  );
  assert.deepEqual([parts[1].style.left, parts[1].style.width], ["35%", "7.5%"]);
  made.track.show(null, OWN, 0.8, "x");
  assert.equal(made.box.querySelectorAll(".dm-map > i").length, 0);
});

test("the other text replaces the run's from the first new token on", async () => {
  const { all, run, preview } = await drawn("sampling-1", "strip");
  const rest = run.steps.slice(8, 12).map(({ emit }) => emit[0]);
  const first = { step: 2, token_id: run.steps[5].emit[0], known: true, rest };
  await preview({ step: 1, rows: [], setting: "0.42", first, stale: false });
  const words = rest.map((id) => run.pieces[id]).join("");
  assert.equal(all(".tx-rest")[0].textContent, words);
  assert.equal(all(".dp-tok.away").length, run.tokens[0].length - 3);
  await preview(null);
  assert.equal(all(".tx-rest, .away, .gone").length, 0);
});

const PARAMS = [
  { name: "temperature", label: "Temperature" },
  { name: "top_p", label: "Top-p" },
];

const ANSWER = { options: [], rest: { raw: 0, used: 0 }, source: "kept", pieces: {} };

/** A tab with a finished run and two dials, and a server that answers from this list in turn. */
async function tab(name, answers, about = {}) {
  document.body.replaceChildren(document.createElement("div"));
  const asked = [];
  const { receive } = connectQuestions((question) => {
    asked.push(`${question.action} ${question.dial ?? ""}`.trim());
    const answer = question.action === "dial_map" ? answers.shift() : ANSWER;
    receive(JSON.stringify({ id: question.id, ...answer }));
  });
  const seen = {};
  const mount = (_root, ctx) => {
    seen.context = ctx;
    return { update() {}, select() {}, clear() {} };
  };
  stages.register({ only: { title: "Only", mount } });
  stages.mount(document.body.firstChild, { strategy: name, visuals: ["only"] }, () => {});
  const dials = document.createElement("div");
  for (const param of PARAMS) {
    const field = document.createElement("div");
    field.className = "f-field";
    const [input, slider] = [1, 2].map(() => document.createElement("input"));
    input.setAttribute("data-param", param.name);
    slider.setAttribute("type", "range");
    Object.assign(slider, { min: "0", max: "2" });
    field.append(input, slider);
    dials.append(field);
  }
  const values = { temperature: 0.8, top_p: 1 };
  const box = document.createElement("div");
  const taken = [];
  const form = { dials, box, params: PARAMS, values: () => values, take: (v) => taken.push(v) };
  const strategy = {
    ...{ name, dials: ["temperature", "top_p"], params: PARAMS },
    what_if: { params: ["temperature", "top_p"], in_page: true },
  };
  const preview = new DialPreview(strategy, form);
  const trace = await open("sampling-1");
  trace.outputs[0].token_ids = OWN;
  const run = store.showTrace(name, recorded(trace), "replayed");
  Object.assign(run, { form: { values: { ...values } }, status: "finished", ...about });
  store.select(run, 1);
  await paint();
  return {
    ...{ asked, run, taken, preview, dials },
    shown: () => seen.context.preview,
    captions: () => [...dials.querySelectorAll(".dm-caption")].map((node) => node.textContent),
    move: async (changes) => {
      Object.assign(values, changes);
      dials.dispatchEvent(new Event("input"));
      await paint();
    },
  };
}

test("after a run the map is fetched once, and a moved dial shows the other text without a question", async () => {
  const { asked, captions, move, shown, run } = await tab("map-1", [{ map: MAP }]);
  assert.deepEqual(asked, ["dial_map temperature"]);
  assert.deepEqual(captions(), ["Same text from 0.70 to 0.85text 2 of 4", ""]);
  assert.equal(run.more_pieces[9], " e");
  await move({ temperature: 1.5 });
  assert.ok(!asked.includes("what_if_first"));
  assert.equal(captions()[0], "New from token 1 onText 4 of 4".replace("T", "t"));
  const { first } = shown() ?? {};
  assert.deepEqual(first, { step: 0, token_id: 9, known: true, rest: [9, 9, 9] });
  await move({ top_p: 0.5 });
  assert.equal(captions()[0], "", "another setting has changed, so the map does not hold");
});

test("a map is asked for again while the server is busy, and never for a run without one", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { asked, captions } = await tab("map-2", [{ later: true }, { map: MAP }]);
  t.mock.timers.tick(5000);
  await new Promise(setImmediate);
  assert.equal(asked.length, 2);
  assert.equal(captions()[0], "Same text from 0.70 to 0.85text 2 of 4");
  const refused = await tab("map-3", [{ refused: "No." }]);
  assert.deepEqual(refused.captions(), ["", ""]);
});

test("a recorded run fetches the maps that the gallery has, and no others", async (t) => {
  const fetched = [];
  t.mock.method(globalThis, "fetch", async (url) => {
    fetched.push(url.split("/").at(-1));
    return { ok: true, text: async () => JSON.stringify({ map: MAP }) };
  });
  await tab("map-5", [], { entry: "sampling-4", dial_maps: [] });
  assert.deepEqual(fetched, []);
  const { asked } = await tab("map-6", [], { entry: "sampling-1", dial_maps: ["temperature"] });
  assert.deepEqual(fetched, ["sampling-1.temperature.json"]);
  assert.deepEqual(asked, []);
});

test("a run at an edge uses the middle of the stretch", async () => {
  const { move, preview, taken } = await tab("map-4", [{ map: MAP }]);
  await move({ temperature: 1.2 });
  preview.moveOffEdges();
  await move({ temperature: 0.7005 });
  preview.moveOffEdges();
  assert.deepEqual(taken, [{ temperature: 0.775 }]);
});

test("the recorded maps say which text the recorded runs have", async () => {
  for (const name of ["sampling-1", "sampling-2"]) {
    const trace = await open(name);
    for (const dial of ["temperature", "top_p"]) {
      const file = new URL(
        `../../assets/gallery/dial_maps/${name}.${dial}.json.gz`,
        import.meta.url,
      );
      const map = JSON.parse(gunzipSync(readFileSync(file)));
      const place = findPlace(map, trace.outputs[0].token_ids, trace.config[dial]);
      assert.equal(place.first, null, `${name} ${dial}`);
    }
  }
});
