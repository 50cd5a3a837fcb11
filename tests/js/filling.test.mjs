// The pictures of masked diffusion, drawn from recorded runs.
import assert from "node:assert/strict";
import { test } from "node:test";
import { click, drawn, press } from "./stage.mjs";

test("filling: every place has its pass as a number, and a hidden one has none", async () => {
  const { all, text, select, trace } = await drawn("masked_diffusion-1", "filling");
  for (const index of [0, 5, trace.steps.length - 1]) {
    await select(index);
    const known = new Map();
    for (const step of trace.steps.slice(0, index + 1))
      for (const { position, written } of step.detail.guesses)
        if (written) known.set(position, step.index + 1);
    const boxes = all(".fi-box");
    assert.equal(boxes.length, trace.steps[0].detail.length);
    for (const [place, box] of boxes.entries()) {
      const number = box.querySelector(".n").textContent;
      assert.equal(number, String(known.get(place) ?? "?"));
      assert.equal(box.classList.contains("hid"), !known.has(place));
      assert.equal(box.classList.contains("new"), known.get(place) === index + 1);
    }
    assert.ok(text(".fi-scrub").includes(`Pass ${index + 1} of ${trace.steps.length}`));
  }
});

test("filling: keys move between the words, and each is explained below", async () => {
  const { all, text, select, trace } = await drawn("masked_diffusion-1", "filling");
  await select(trace.steps.length - 1);
  const [first, second] = all(".fi-box");
  await click(first);
  assert.equal(text(".fi-note"), first.getAttribute("aria-label"));
  await press(first, "ArrowRight");
  assert.equal(text(".fi-note"), second.getAttribute("aria-label"));
  assert.match(text(".fi-note"), /was written in pass \d+ with/);
  assert.equal(all(".fi-box[tabindex='0']").length, 1);
});

test("filling: given words are marked, and never as written by a pass", async () => {
  const { all, select, trace } = await drawn("masked_diffusion-2", "filling");
  await select(0);
  const given = trace.steps[0].detail.given.map(([place]) => place);
  assert.ok(given.length);
  for (const [place, box] of all(".fi-box").entries()) {
    assert.equal(box.classList.contains("given"), given.includes(place));
    if (given.includes(place)) assert.equal(box.querySelector(".n").textContent, "=");
  }
});

test("filling: Tab leads into the text, and the slider of passes is the only player", async () => {
  const { all, select } = await drawn("masked_diffusion-1", "strip", "scrub", "filling");
  await select(2);
  assert.equal(all(".dp-strip .dp-tok.sel").length, 0);
  assert.deepEqual(all(".dp-strip [tabindex='0']"), all(".dp-strip .dp-tok.new").slice(0, 1));
  assert.equal(all(".dp-scrub")[0].closest("[hidden]") !== null, true);
});

test("filling: a word of the text shows the pass that wrote it", async () => {
  const { all, run, trace } = await drawn("masked_diffusion-1", "strip", "filling");
  const written = trace.steps.flatMap((step) =>
    step.detail.guesses
      .filter((guess) => guess.written)
      .map((guess) => [guess.position, step.index]),
  );
  const of = new Map(written);
  const words = all(".dp-strip .dp-tok.new");
  assert.equal(words.length, of.size);
  for (const [place, word] of words.entries())
    assert.equal(word.getAttribute("data-step"), String(of.get(place)));
  await click(words[4]);
  assert.equal(run.selected, of.get(4));
  assert.ok(words[4].classList.contains("sel"));
});

test("filling: both texts are compared with the figures that were measured", async () => {
  const { all, text, select, trace } = await drawn("masked_diffusion-1", "filling_compared");
  await select(0);
  const { filled, plain } = trace.steps.at(-1).detail.report;
  const rows = all(".fi-compared tbody tr").map((row) => row.textContent);
  assert.equal(rows.length, 2);
  for (const [i, found] of [filled, plain].entries()) {
    assert.ok(rows[i].includes(String(found.passes)));
    assert.ok(rows[i].includes(found.perplexity.toFixed(1)));
  }
  assert.ok(text(".fi-plain").includes("run around outside. One day, they found a big box"));
});
