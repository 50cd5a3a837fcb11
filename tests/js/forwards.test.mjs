// What the forward timeline says of a run, and where it draws the places of a text.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./page.mjs";
import {
  createAxis,
  createScale,
  createSegments,
  lanePosition,
  tickValues,
} from "../../visualizers/forward_timeline/lane.mjs";
import {
  gapsText,
  passText,
  stepText,
  summaryText,
} from "../../visualizers/forward_timeline/words.mjs";
import { stripTerms } from "../../visualizers/shared/terms.mjs";

const FIGURES = {
  tokens: 24,
  passes: 31,
  back: 7,
  rollbacks: 2,
  left: 0,
  aside: 0,
  rows: 1,
  without_ids: 0,
  blind: 0,
  steps: 28,
  declared: 29,
};

const summary = (figures, ended = true) =>
  stripTerms(summaryText({ ...FIGURES, ...figures }, ended));
const unseen = (figures, ended = true) => stripTerms(gapsText({ ...FIGURES, ...figures }, ended));

test("a run is summed up in the numbers of its record", () => {
  assert.equal(
    summary({}),
    "24 tokens in 31 forward passes; 7 tokens were taken back in 2 rollbacks.",
  );
  assert.equal(
    summary({ tokens: 1, passes: 1, back: 0, rollbacks: 0 }),
    "1 token in 1 forward pass; none was taken back.",
  );
  assert.match(summary({ back: 1, rollbacks: 1 }), /1 token was taken back in 1 rollback\.$/);
});

test("what is special to a run is said, and nothing else", () => {
  assert.match(
    summary({ left: 23 }),
    / 23 tokens that had been written are not in the text that was returned\.$/,
  );
  assert.doesNotMatch(summary({ left: 23 }, false), /returned/);
  assert.match(summary({ aside: 5 }), / 5 of the passes read another text than the run's own\.$/);
  assert.match(summary({ rows: 4 }), / Up to 4 rows were read at once; .* the first\.$/);
});

test("what could not be seen is one line, and none where all was seen", () => {
  assert.equal(unseen({}), "");
  assert.equal(
    unseen({ passes: 0, blind: 3, steps: 3, declared: 0 }),
    "Not seen: any forward pass: the tokens came from elsewhere; the candidates at 3 of 3 steps (no model output was available there); when a token was final, as none was handed to a streamer.",
  );
  assert.equal(
    unseen({ without_ids: 1, rows: 3 }),
    "Not seen: what 1 pass read, as it was given no token ids; which tokens the other rows got.",
  );
  // While a run goes on, what has not come may still come.
  assert.equal(unseen({ passes: 0, declared: 0 }, false), "");
});

const RUN = { pieces: { 1: " big", 2: " cat", 3: " sat" }, shown: [] };

function said(step, shown) {
  RUN.shown[0] = { forward_timeline: shown };
  return stepText(RUN, { index: 0, ...step });
}

const PASS = { rows: 1, read: 1, cached: 4, length: 5, dropped: 0, aside: false };
const row = (number, gone = []) => ({ number, gone, took_s: null });

test("a step is told in the order of what happened", () => {
  const passes = [PASS, { ...PASS, length: 4, cached: 3, dropped: 1 }];
  assert.equal(
    said(
      { keep: 1, emit: [2], detail: { passes, declared: 5 } },
      { rows: [row(4, [1]), row(5)], written: 2 },
    ),
    "Forward passes 4 and 5 read 1 + 1 tokens of its text. 1 token was taken back after pass 4: “·big”. Then “·cat” was written, new token 2. 5 tokens were handed to the streamer meanwhile.",
  );
  assert.equal(
    said(
      { keep: 0, emit: [1, 2, 3], detail: { passes: [], declared: 0 } },
      { rows: [row(null, [3])], written: 3 },
    ),
    "No forward pass was seen before it. 1 token was taken back: “·sat”. Then “big cat sat” was written, new tokens 1 to 3.",
  );
  const beside = [PASS, { ...PASS, aside: true }, { ...PASS, aside: true }];
  assert.equal(
    said(
      { keep: 1, emit: [], detail: { passes: beside, declared: 0 } },
      { rows: [row(1), row(2), row(3)], written: 1 },
    ),
    "Forward passes 1 to 3 read 1 token of its text; 2 passes read another text. Nothing was written.",
  );
});

test("a pass says what it read and what the cache held", () => {
  assert.equal(passText(PASS), "read 1 token, 4 stored in the cache");
  assert.equal(
    passText({ ...PASS, read: 6, rows: 2, cached: 0, aside: true }),
    "read 6 tokens of another text in each of 2 rows, no cache",
  );
  assert.equal(passText({ ...PASS, read: 0, rows: 0, aside: true }), "read no token ids");
});

test("a place of the text stands where its share of the row says, after a prompt of bounded length", () => {
  const scale = { start: 5, room: 24 };
  assert.equal(lanePosition(0, scale), 0);
  assert.equal(lanePosition(29, scale), 1);
  assert.ok(Math.abs(lanePosition(5, scale) - 5 / 29) < 1e-12);
  const long = { start: 500, room: 10 };
  assert.equal(lanePosition(500, long), 0.22);
  assert.ok(Math.abs(lanePosition(505, long) - 0.61) < 1e-12);
  assert.equal(lanePosition(900, long), 1);
  assert.equal(lanePosition(0, { start: 0, room: 4 }), 0);
});

test("a run that goes on has room for more, one that has ended has not", () => {
  assert.deepEqual(createScale({ start: 5, most: 22 }, false), { start: 5, room: 32 });
  assert.deepEqual(createScale({ start: 5, most: 22 }, true), { start: 5, room: 17 });
  assert.deepEqual(createScale({ start: 5, most: 5 }, true), { start: 5, room: 1 });
  assert.deepEqual(createScale({ start: null, most: null }, true), { start: 0, room: 1 });
  for (const room of [1, 16, 24, 120, 4000]) assert.ok(tickValues({ start: 0, room }).length < 6);
  assert.deepEqual(tickValues({ start: 5, room: 24 }), [8, 16, 24]);
  assert.equal(createAxis({ start: 0, room: 8 }, "prompt")[0].attributes.class, "tick");
  assert.equal(createAxis({ start: 5, room: 8 }, "prompt")[0].attributes.class, "who");
});

const kinds = (nodes) => nodes.map((node) => node.attributes.class);

test("what was held, read and taken back are parts of a row that meet", () => {
  const scale = { start: 0, room: 10 };
  const [held, read, gone] = createSegments(
    { ...PASS, read: 4, cached: 3, length: 7 },
    row(1, [1, 2]),
    scale,
  );
  assert.deepEqual(kinds([held, read, gone]), ["held", "read", "gone"]);
  assert.deepEqual(
    [held, read].map((node) => node.style.left),
    ["0%", "30%"],
  );
  assert.deepEqual(
    [held, read].map((node) => node.style.width),
    ["30%", "40%"],
  );
  assert.equal(gone.style.left, "50%");
  const other = createSegments({ ...PASS, aside: true }, row(1), scale);
  assert.deepEqual(kinds(other), ["other", "end"]);
  assert.deepEqual(kinds(createSegments({ ...PASS, read: 0, aside: true }, row(1), scale)), [
    "end",
  ]);
});
