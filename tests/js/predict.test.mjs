// Guessing: which steps can be guessed, what is offered, what is covered meanwhile, and the score.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  chooseOffers,
  countVisibleSteps,
  findNextStep,
  GIVEN_AWAY,
  matchTypedText,
  NOT_RECORDED,
  OFFER_COUNT,
  REWRITES_TEXT,
  refusalReason,
  scoreGuesses,
} from "../../visualizers/predict/game.mjs";
import { Rounds } from "../../visualizers/predict/rounds.mjs";
import { endText, revealText, skipText } from "../../visualizers/predict/words.mjs";
import { findDecidedToken } from "../../visualizers/shared/record.mjs";
import { tokenLabel } from "../../visualizers/shared/text.mjs";
import { Recordings } from "../../visualizers/stage/recordings.mjs";
import { names, open, recorded } from "./traces.mjs";

async function shown(name) {
  const trace = await open(name);
  return new Recordings().showTrace("x", recorded(trace), "recorded");
}

const idsOf = (tokens) => (tokens ?? []).map(({ id }) => id);

// All steps that are guessed from one end of a run to the other, each with what is seen meanwhile.
function* guessed(run) {
  const rounds = new Rounds(run);
  for (let seen = rounds.look(); rounds.phase !== "over"; seen = rounds.look()) {
    if (rounds.phase === "guess") {
      yield { rounds, seen };
      rounds.reveal(null);
    } else rounds.next();
  }
}

for (const name of names)
  test(`${name}: nothing of a step that is guessed, or later, is in the run that is drawn`, async () => {
    const run = await shown(name);
    let passed = 0;
    for (const { rounds, seen } of guessed(run)) {
      assert.ok(seen.steps.length <= rounds.index);
      assert.deepEqual(
        [seen.outputs, seen.emitted, seen.metrics, seen.shows],
        [[], [], undefined, ""],
      );
      assert.equal(seen.shown.length, seen.steps.length);
      const { before, step, written } = rounds;
      // What is guessed comes right behind what is seen.
      assert.equal(idsOf(seen.tokens[0]).length, step.keep);
      assert.deepEqual(before.accepted, step.emit.slice(0, before.accepted.length));
      assert.equal(before.text.length, run.prompt_ids.length + step.keep);
      assert.equal(written.token_id, findDecidedToken(step));
      passed += [...rounds.passed.values()].reduce((sum, count) => sum + count, 0);
    }
    const all = findNextStep(run, 0, 0);
    // A pass of masked diffusion has no next word, and a custom method need not have one.
    assert.ok(all.index !== null || /^(custom|masked_diffusion)/.test(name), name);
    assert.ok(passed <= run.steps.length);
  });

test("a search is guessed where its text goes on, by the candidates of that text", async () => {
  for (const name of names.filter((n) => n.includes("beam"))) {
    const run = await shown(name);
    const reasons = run.steps.map((_, index) => refusalReason(run, index));
    for (const [index, reason] of reasons.entries()) {
      const step = run.steps[index];
      if (reason) continue;
      const [p] = run.shown[index].text.p;
      const own = step.candidates.find((c) => c.token_id === findDecidedToken(step));
      assert.ok(p === null || Math.abs(Math.exp(own.raw_logprob) - p) < 1e-4, `${name} ${index}`);
    }
    assert.ok(reasons.some((reason) => !reason));
    assert.ok(
      reasons.every((reason) =>
        ["", REWRITES_TEXT, NOT_RECORDED, "wrote nothing"].includes(reason),
      ),
    );
  }
});

const step = (index, sequence, keep, own = 1, emit = [own]) => ({
  index,
  sequence,
  keep,
  emit,
  candidates: [{ token_id: own, raw_logprob: -1, rank: 0 }],
});

test("outputs that are written side by side hide each other's place, those written in turn give it away", () => {
  const side = [step(0, 0, 0), step(1, 1, 0), step(2, 0, 1), step(3, 1, 1)];
  assert.deepEqual(
    side.map((_, index) => countVisibleSteps(side, index)),
    [0, 0, 2, 2],
  );
  const run = { steps: side, shown: [] };
  assert.deepEqual(findNextStep(run, 1, 2), { index: 3, passed: new Map() });
  const turns = [step(0, 0, 0), step(1, 0, 1), step(2, 1, 0), step(3, 1, 1)];
  const reasons = turns.map((_, index) => refusalReason({ steps: turns, shown: [] }, index));
  assert.deepEqual(reasons, ["", "", "", GIVEN_AWAY]);
});

test("an offer has the written token, wherever it ranks, and its shape does not tell", async () => {
  for (const name of ["greedy-1", "sampling-1", "watermark-1"]) {
    const run = await shown(name);
    for (const { candidates, ...rest } of run.steps) {
      const ranked = [...candidates].sort((a, b) => a.rank - b.rank);
      for (const { token_id: own } of candidates) {
        const written = { ...rest, candidates, emit: [own] };
        const offers = chooseOffers(run, written);
        assert.equal(offers.length, OFFER_COUNT);
        assert.ok(offers.includes(own));
        assert.deepEqual(offers, chooseOffers(run, written), "the same again");
        assert.equal(new Set(offers.map((id) => tokenLabel(run, id))).size, OFFER_COUNT);
        const places = offers.map((id) => ranked.findIndex((c) => c.token_id === id));
        places.sort((a, b) => a - b);
        assert.ok(places[0] <= 1 && places.at(-1) - places[3] <= 4, `${name} ${places}`);
        const words = offers.map((id) => run.pieces[id].trim().toLowerCase());
        assert.deepEqual(words, [...words].sort());
      }
    }
  }
});

test("a typed text is a candidate, or has at most what all candidates have, or nobody here knows", () => {
  const candidate = (token_id, rank, raw_logprob) => ({ token_id, rank, raw_logprob });
  const pieces = { 1: " pond", 2: "pond", 3: " do", 4: " far", 5: "" };
  const run = { pieces };
  const list = [candidate(1, 0, -1), candidate(3, 1, -2), candidate(4, 7, -9), candidate(5, 2, -3)];
  const of = (text, candidates = list) => matchTypedText(run, { candidates }, text);
  assert.equal(of(" pond").candidate.token_id, 1);
  assert.equal(of("pond").candidate.token_id, 1);
  assert.equal(of("pond", [...list, candidate(2, 3, -4)]).candidate.token_id, 2);
  assert.deepEqual(of("cat"), { most: -3 });
  assert.deepEqual(of("dog"), {}, "it may begin with a recorded token");
  assert.deepEqual(of("cat", [candidate(4, 7, -9)]), {}, "others may be more probable");
});

test("the score leaves out what nobody knows, and an impossible token is endless", () => {
  const [a, b] = [Math.log(0.5), Math.log(0.125)];
  assert.deepEqual(scoreGuesses([]), { guesses: 0, right: 0, known: 0, own: null, model: null });
  const found = scoreGuesses([
    { logprob: a, written: a, right: true },
    { logprob: b, written: a, right: false },
    { logprob: undefined, written: b, right: false },
  ]);
  assert.deepEqual([found.guesses, found.right, found.known], [3, 1, 2]);
  assert.ok(Math.abs(found.own - 4) < 1e-12 && Math.abs(found.model - 2) < 1e-12);
  assert.ok(scoreGuesses([{ logprob: null, written: a, right: false }]).own > 1e300);
});

test("a live run is waited for, hidden from its first step, and over when it has ended", async () => {
  const whole = await shown("greedy-1");
  const run = { ...whole, source: undefined, status: "running", steps: [], shown: [], outputs: [] };
  const rounds = new Rounds(run);
  assert.equal(rounds.look().steps.length, 0);
  assert.equal(rounds.phase, "waiting");
  run.steps = whole.steps.slice(0, 3);
  run.shown = whole.shown.slice(0, 3);
  assert.equal(rounds.look().steps.length, 0);
  assert.deepEqual([rounds.phase, rounds.index], ["guess", 0]);
  rounds.reveal({ name: "x", token_id: rounds.written.token_id, logprob: -1 });
  assert.equal(rounds.look().steps.length, 1);
  for (const index of [1, 2]) {
    rounds.next();
    rounds.look();
    assert.equal(rounds.index, index);
    rounds.reveal(null);
  }
  rounds.next();
  rounds.look();
  assert.equal(rounds.phase, "waiting");
  run.status = "finished";
  rounds.look();
  assert.equal(rounds.phase, "over");
  assert.deepEqual(rounds.guesses, [
    { logprob: -1, written: whole.steps[0].candidates[0].raw_logprob, right: true },
  ]);
});

test("a run that a player shows in part is guessed from there", async () => {
  const run = await shown("greedy-1");
  new Recordings().rewind(run, 5, "replayed");
  const rounds = new Rounds(run);
  assert.equal(rounds.look().steps.length, 5);
  assert.equal(rounds.index, 5);
});

test("what is said of a guess says what the model gave to it and to what was written", async () => {
  const rounds = new Rounds(await shown("greedy-1"));
  rounds.look();
  const { token_id, raw_logprob: logprob, rank } = rounds.step.candidates[1];
  const name = tokenLabel(rounds.run, token_id);
  rounds.reveal({ name, token_id, logprob, rank });
  assert.match(
    revealText(rounds),
    /^You said “.+”: the model gave it [\d.]+ %, rank 2\. It wrote “.+”: the model gave it [\d.]+ %, rank 1\.$/,
  );
  rounds.reveal({ name: "x", most: -7 });
  assert.match(
    revealText(rounds),
    /is no recorded candidate, so the model gave it at most 0\.091 %\. It does not count\./,
  );
  rounds.reveal({ name: "x" });
  assert.match(
    revealText(rounds),
    /only the model knows how probable it was\. It does not count\./,
  );
  rounds.reveal(null);
  assert.match(revealText(rounds), /^It wrote “/);
  rounds.passed = new Map([[REWRITES_TEXT, 2]]);
  assert.equal(skipText(rounds), "Passed over: 2 steps that took back some of the text.");
  rounds.guesses = [];
  assert.match(endText(rounds), /Nothing of this run can be guessed\.$/);
});
