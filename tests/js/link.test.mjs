// What a link does by itself, and what only who has read it does.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./page.mjs";
import { connectAsk } from "../../playground/client/ask.mjs";
import { restore } from "../../playground/client/link.mjs";
import { keepPart } from "../../playground/client/parts.mjs";
import { declare } from "../../playground/client/spec.mjs";

declare({
  params: [],
  strategies: [],
  models: [
    { name: "own", embedded: true },
    { name: "someone/offered", embedded: false },
  ],
});

// Whether a link's form is run, and what is said instead.
async function opened(form) {
  const told = [];
  keepPart("compare", {
    restore: (_, itself) => told.push(itself),
    refuse: (error) => told.push(error),
  });
  const { receive } = connectAsk(({ id }) => receive(JSON.stringify({ id, tab: "compare", form })));
  await restore("?tab=compare&form={}");
  return told;
}

test("a link that names models of the page is run by itself", async () => {
  const columns = [
    { model: "own", assistant: "" },
    { model: "own", assistant: "own" },
  ];
  assert.deepEqual(await opened({ base: "own", columns }), [true]);
});

test("a link that names another model is not run by itself", async () => {
  for (const form of [
    { model: "someone/else" },
    { model: "own", assistant: "someone/else" },
    { base: "someone/else", columns: [{ model: "own" }] },
    { base: "own", columns: [{ model: "own" }, { model: "someone/offered" }] },
    { base: "own", columns: [{ model: "own", assistant: "/a/folder" }] },
  ]) {
    const [itself, said] = await opened(form);
    assert.equal(itself, false);
    assert.match(
      said,
      /^This link asks for (someone\/(else|offered)|\/a\/folder), .* Run does it\.$/,
    );
  }
});
