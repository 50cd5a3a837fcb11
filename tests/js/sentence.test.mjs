// The sentence above the picture: short and whole for every step of every recorded run, and what other
// settings would choose while a dial is moved.
import assert from "node:assert/strict";
import { test } from "node:test";
import { drawn, paint } from "./stage.mjs";
import { names } from "./traces.mjs";

for (const name of names)
  test(`${name}: every step has a short sentence without gaps`, async () => {
    const { all, text, select, trace } = await drawn(name, "sentence", "beam_tree");
    for (const { index } of trace.steps.slice(0, 20)) {
      await select(index);
      const said = text(".se-text");
      assert.match(said, /^\S.*[.”]$/s, `step ${index}: ${said}`);
      assert.doesNotMatch(said, /[{}]|undefined|null| {2}/, `step ${index}`);
      for (const one of said.split(/[.!?] (?=[A-Z])/))
        assert.ok(one.split(/\s+/).length <= 20, `step ${index}: ${one}`);
      const named = all(".se-word").length > 0;
      assert.ok(
        named || /secret|nothing|the text ended there/.test(said),
        `step ${index}: ${said}`,
      );
    }
  });

test("a draw says its chance, and greedy that it took the likeliest", async () => {
  const { text, select, trace } = await drawn("sampling-1", "sentence");
  const rare = trace.steps.find(({ detail }) => detail.racers[0].probability < 0.05);
  await select(rare.index);
  assert.match(
    text(".se-text"),
    /^The draw fell on .*, though its chance was only .*%; .* had \d+.%\.$/,
  );
  const greedy = await drawn("greedy-1", "sentence");
  await greedy.select(0);
  assert.match(greedy.text(".se-text"), /likeliest word here|just ahead of/);
});

test("two chances that differ do not look equal", async () => {
  const { run, text, select } = await drawn("sampling-1", "sentence");
  const shares = { kind: "drawn", share: 0.0791, other_share: 0.0823 };
  Object.assign(run.shown[3].sentence, shares);
  await select(3);
  assert.match(text(".se-text"), /with 7\.91.%; .* was likelier with 8\.23.%\.$/);
  Object.assign(run.shown[4].sentence, { ...shares, other_share: 0.21 });
  await select(4);
  assert.match(text(".se-text"), /with 8.%; .* was likelier with 21.%\.$/);
});

test("a node that is not in the winning text says what became of it", async () => {
  const { text, select, trace } = await drawn("beam_search-1", "sentence", "beam_tree");
  const { index, detail } = trace.steps[2];
  const dropped = detail.pool.find(({ fate }) => fate === "pruned");
  await select(index, dropped.node_id);
  assert.match(text(".se-text"), /^The text with .* was dropped/);
});

test("other settings: what they give instead, that the word stays, or that only a run can show it", async () => {
  const given = await drawn("sampling-1", "sentence");
  await given.select(4);
  const recorded = given.text(".se-text");
  const { emit, candidates } = given.trace.steps[4];
  const [own] = emit;
  const other = candidates.find(({ token_id }) => token_id !== own).token_id;
  const preview = {
    ...{ step: 4, rows: [], rest_own: 1, rest_used: 1, chosen: other, needle: null },
    ...{ setting: "0.42", first: null, stale: false },
  };
  const said = async (fields) => {
    given.stages.setPreview("x", { ...preview, ...fields });
    await paint();
    return given.text(".se-text");
  };
  assert.match(await said({}), /^With the same words before it, 0\.42 gives .* instead of .*\.$/);
  const first = { step: 4, token_id: other, known: true };
  assert.match(await said({ first }), /^0\.42 gives .* instead of /);
  assert.match(await said({ chosen: own }), /^Still .* at 0\.42\.$/);
  assert.equal(
    await said({ stale: true, pending: true, chosen: null }),
    "Deciding this step again…",
  );
  assert.match(await said({ stale: true, chosen: null }), /^Press Run/);
  assert.ok(given.all(".se-text")[0].classList.contains("stale"));
  given.stages.setPreview("x", null);
  assert.equal(given.text(".se-text"), recorded);
});

test("a drafted word that was kept says who guessed it", async () => {
  const { run, text, stages, trace } = await drawn("speculative-1", "sentence");
  const { index, emit } = trace.steps.find(
    ({ detail, emit }) => detail.tokens.length && emit.length > 2,
  );
  stages.list[0].context.select(index, undefined, 0);
  await paint();
  assert.ok(text(".se-word").includes(run.pieces[emit[0]].trim()));
  assert.match(text(".se-text"), /^The draft model guessed .*, and the main model kept it\.$/);
});
