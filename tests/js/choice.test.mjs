// The choice at a step as one picture: bars, the strip of a draw, and both while a dial is moved.
import assert from "node:assert/strict";
import { test } from "node:test";
import { click, drawn, paint, press } from "./stage.mjs";

const { setFilterTitles } = await import("../../visualizers/shared/processors.mjs");
const { formatWholePercent } = await import("../../visualizers/shared/text.mjs");
const { needlePlace } = await import("../../visualizers/distribution/strip.mjs");

const number = (text) => Number.parseFloat(text);
const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-6, `${a} is not near ${b}`);

/** Names, lengths and marks of the visible bars. */
const barsOf = ({ all }) =>
  all(".cb-row").map((row) => ({
    name: row.querySelector(".cb-name").textContent,
    width: number(row.querySelector(".cb-bar b").style.width),
    tick: row.querySelector(".cb-bar u").hidden
      ? null
      : number(row.querySelector(".cb-bar u").style.left),
    share: row.querySelector(".cb-share > span").textContent,
    on: row.classList.contains("on"),
    gone: row.querySelector(".cb-gone").textContent,
  }));

test("percent are whole, have a decimal below 1 %, and are never rounded to all or nothing", () => {
  const shares = [0, 0.0004, 0.0049, 0.02, 0.355, 0.9951, 1];
  const texts = ["0 %", "<0.1 %", "0.5 %", "2 %", "36 %", ">99 %", "100 %"];
  assert.deepEqual(
    shares.map((p) => formatWholePercent(p).replace("\u00a0", " ")),
    texts,
  );
});

test("bars are to one scale, with a tick where the settings changed a chance", async () => {
  const given = await drawn("sampling-1", "candidates");
  await given.select(4);
  const bars = barsOf(given);
  assert.equal(bars.length, 8);
  assert.equal(bars.at(-1).name, "all others");
  const { candidates } = given.trace.steps[4];
  assert.equal(Math.max(...bars.flatMap(({ width, tick }) => [width, tick ?? 0])), 100);
  for (const [i, candidate] of candidates.slice(0, 6).entries()) {
    const [own, used] = [candidate.raw_logprob, candidate.processed_logprob].map(Math.exp);
    near(bars[i].width / bars[0].width, used / Math.exp(candidates[0].processed_logprob));
    assert.equal(bars[i].share, formatWholePercent(used));
    assert.equal(bars[i].tick !== null, formatWholePercent(own) !== formatWholePercent(used));
  }
  assert.equal(bars.filter(({ on }) => on).length, 1);
  assert.ok(!given.all(".cb-legend")[0].hidden);
  const plain = await drawn("greedy-1", "candidates");
  await plain.select(4);
  assert.ok(barsOf(plain).every(({ tick }) => tick === null));
  assert.ok(plain.all(".cb-legend")[0].hidden);
});

test("the needle of a draw is in the winner's slice where the arrival puts it", async () => {
  const { all, select, trace } = await drawn("sampling-1", "candidates");
  for (const { index, detail } of trace.steps.slice(0, 12)) {
    await select(index);
    const slices = all(".sl-slice").filter((node) => !node.hidden);
    const shares = slices.map((node) => number(node.style.flexBasis));
    near(shares.reduce((a, b) => a + b) / 100, 1);
    const won = slices.findIndex((node) => node.classList.contains("on"));
    const [{ arrival, probability }] = detail.racers;
    const before = shares.slice(0, won).reduce((a, b) => a + b, 0);
    const place = number(all(".sl-strip")[0].style.getPropertyValue("--at"));
    const expected = before + 100 * probability * (1 - Math.exp(-arrival));
    assert.ok(Math.abs(place - expected) < 0.02, `step ${index}: ${place}, not ${expected}`);
  }
});

test("without arrivals there is a strip but no needle, and without a draw no strip", async () => {
  const slices = [{ name: "a", share: 0.5, on: true }];
  assert.equal(needlePlace({ slices, rest: 0.5, needle: null }), null);
  for (const name of ["greedy-1", "contrastive_search-1", "beam_sampling-1", "speculative-1"]) {
    const { all, select } = await drawn(name, "candidates", "beam_tree");
    await select(3);
    assert.ok(all(".sl-strip")[0].hidden, name);
  }
});

test("tokens that differ only in the space before them are told apart", async () => {
  const given = await drawn("sampling-1", "candidates");
  const [first, second] = given.trace.steps[4].candidates.map(({ token_id }) => token_id);
  Object.assign(given.run.pieces, { [first]: " play", [second]: "play" });
  await given.select(4);
  assert.deepEqual(given.texts(".cb-name").slice(0, 2), ["·play", "play"]);
});

test("the row of what a server did not report says so only while no reported token is in it", async () => {
  for (const [listed, name] of [
    [3, "unseen"],
    [9, "all others"],
  ]) {
    const given = await drawn("greedy-1", "candidates");
    const step = given.run.steps[4];
    step.detail = { kind: "served" };
    step.candidates = step.candidates.slice(0, listed);
    await given.select(4);
    assert.equal(given.texts(".cb-row.rest .cb-name").at(-1), name);
  }
});

test("a draw from a server's candidates is drawn as one from a model here", async () => {
  const given = await drawn("sampling-1", "candidates");
  await given.select(4);
  const look = () => ["name", "share"].map((part) => given.texts(`.cb-row .cb-${part}`));
  const here = look();
  const step = given.run.steps[4];
  step.detail = { kind: "served", draw: step.detail };
  await given.select(3);
  await given.select(4);
  assert.deepEqual(look(), here);
  step.detail = { kind: "served" };
  await given.select(3);
  await given.select(4);
  assert.notDeepEqual(look(), here);
});

const row = (token_id, own, used, removed = null) => ({ token_id, own, used, removed });

/** A preview of step 4, at which a filter removed the third most likely word. */
function previewOf(trace, fields) {
  const ids = trace.steps[4].candidates.map(({ token_id }) => token_id);
  return {
    ...{ step: 4, rest_own: 0.1, rest_used: 0.05, chosen: ids[1], needle: 0.5 },
    ...{ setting: "0.42", first: null, stale: false },
    rows: [row(ids[0], 0.5, 0.7), row(ids[1], 0.2, 0.25), row(ids[2], 0.3, 0, "TopK")],
    ...fields,
  };
}

async function tried(fields) {
  const given = await drawn("sampling-1", "candidates");
  await given.select(4);
  given.stages.setPreview("x", previewOf(given.trace, fields));
  await paint();
  return given;
}

test("a preview is drawn at once with the same elements, and ends", async () => {
  setFilterTitles({ TopK: "Top-k" });
  const given = await drawn("sampling-1", "candidates");
  await given.select(4);
  const nodes = given.all(".cb-row, .sl-slice");
  const before = barsOf(given);
  given.stages.setPreview("x", previewOf(given.trace));
  const bars = barsOf(given);
  assert.ok(given.all(".cb-row").every((node) => nodes.includes(node)));
  assert.deepEqual(
    bars.map(({ share }) => share.replace("\u00a0", " ")),
    ["70 %", "0 %", "25 %", "5 %"],
    "a removed word stays at its place",
  );
  assert.equal(bars[1].gone, "removed by Top-k");
  assert.deepEqual(
    bars.map(({ on }) => on),
    [false, false, true, false],
  );
  near(number(given.all(".sl-strip")[0].style.getPropertyValue("--at")), 70 + 12.5);
  given.stages.setPreview("x", null);
  assert.deepEqual(barsOf(given), before);
});

test("a preview of another step, and one that only a run can show, change no bar", async () => {
  const other = await tried({ step: 9 });
  const recorded = await drawn("sampling-1", "candidates");
  await recorded.select(4);
  assert.deepEqual(barsOf(other), barsOf(recorded));
  const stale = await tried({ stale: true, rows: [] });
  assert.deepEqual(barsOf(stale), barsOf(recorded));
});

test("words beyond the first seven are folded into all others, the chosen one never", async () => {
  const rows = Array.from({ length: 12 }, (_, i) => row(i, 0.05, 0.05));
  const given = await tried({ rows, rest_own: 0.4, rest_used: 0.4, chosen: 11 });
  const names = () => given.texts(".cb-name");
  assert.equal(names().length, 8);
  const others = () => given.texts(".cb-share > span:first-child").at(-1).replace("\u00a0", " ");
  assert.equal(others(), "65 %");
  assert.ok(given.all(".cb-row")[6].classList.contains("on"));
  const fold = given.all(".cb-row.rest button")[0];
  assert.equal(fold.getAttribute("aria-expanded"), "false");
  await click(fold);
  assert.equal(names().length, 13);
  assert.equal(others(), "40 %");
  await click(given.all(".cb-row.rest button")[0]);
  assert.equal(names().length, 8);
});

test("a name continues from here, and one button asks about the row in use", async () => {
  const given = await drawn("sampling-1", "candidates");
  const [said, { context }] = [[], given.stages.list[0]];
  Object.assign(context, {
    fork: (x) => said.push(["fork", x]),
    ask: (x) => said.push(["ask", x]),
  });
  await given.select(4);
  const { candidates } = given.trace.steps[4];
  const name = given.all("button.cb-name")[1];
  assert.match(name.getAttribute("aria-label"), /^Continue from here with /);
  await click(name);
  assert.deepEqual(said.pop(), ["fork", { step: 4, token_id: candidates[1].token_id }]);
  const why = () => given.all(".cb-why");
  assert.equal(why().length, 0, "shown once the row has the focus");
  name.dispatchEvent(new Event("focusin", { bubbles: true }));
  assert.equal(why().length, 1);
  assert.match(why()[0].getAttribute("aria-label"), /^Why not /);
  await click(why()[0]);
  assert.deepEqual(said.pop(), ["ask", { step: 4, token_id: candidates[1].token_id }]);
  // One press of Tab leads to the names, arrow keys from one to the next.
  const names = given.all("button.cb-name");
  const stops = () => names.filter((node) => node.getAttribute("tabindex") === "0");
  assert.equal(stops().length, 1);
  for (const key of ["End", "ArrowUp"]) await press(stops()[0], key);
  assert.equal(names.indexOf(stops()[0]), names.length - 2);
});

test("bars are the picture where a strategy has no other one, and behind More elsewhere", async () => {
  const sampled = await drawn("sampling-1", "candidates");
  assert.equal(sampled.all(".dp-panel .dp-v-candidates").length, 0);
  for (const [name, picture] of [
    ["watermark-1", "watermark_chance"],
    ["dola-1", "layer_heatmap"],
    ["beam_search-1", "beam_tree"],
  ]) {
    const { all } = await drawn(name, picture, "candidates");
    assert.equal(all(`.dp-panel .dp-v-candidates .cb-row`).length > 0, true, name);
    assert.equal(all(`.dp-panel .dp-v-${picture}`).length, 0, name);
  }
});

test("what a preview does not draw says that it is the run as it was", async () => {
  const { all, root, preview } = await drawn("watermark-1", "watermark_chance", "candidates");
  const noted = all(".dp-as-run").map((note) => note.closest(".dp-card").className);
  assert.deepEqual(noted, ["dp-card dp-v-watermark_chance dp-picture"]);
  const tried = () => root.querySelector(".dp-main").classList.contains("tried");
  assert.equal(tried(), false);
  await preview({ step: 0, rows: [], stale: false, chosen: null, setting: "3", first: null });
  assert.equal(tried(), true);
  await preview(null);
  assert.equal(tried(), false);
});
