// A server's text that a model here has read: bounds, first choices and what the server did not list.
import assert from "node:assert/strict";
import { test } from "node:test";
import { click } from "./stage.mjs";

const { createServerComparison } = await import("../../visualizers/beside/server.mjs");

const FOUND = {
  pieces: { 1: "a", 2: "b", 3: "c" },
  tokens: [
    { token_id: 1, server_p: 0.9, here_p: 0.8, server_top: 1, here_top: 1, kl: [0.02, 0.02] },
    { token_id: 2, server_p: null, here_p: 0.1, server_top: 1, here_top: 3, kl: [0.4, 2.5] },
  ],
  mean_kl: [0.21, 1.26],
  same_tops: 1,
  first_difference: 1,
  compared: 20,
  mean_difference: 0.05,
  largest_difference: 0.2,
  same_prompt: false,
};

function draw(changes = {}) {
  const chosen = [];
  const root = document.createElement("div");
  root.append(...createServerComparison({ ...FOUND, ...changes }, (at) => chosen.push(at)));
  return { root, chosen, tokens: [...root.querySelectorAll(".bs-tok")] };
}

test("every token says between which bounds its divergence is, and what each finds likeliest", async () => {
  const { root, chosen, tokens } = draw();
  const [equal, other] = tokens.map((node) => node.title);
  assert.equal(
    equal,
    "“a”; KL 0.020 nats; probability 90.0 % there, 80.0 % here; both find the same token most probable",
  );
  assert.equal(
    other,
    "“b”; KL between 0.40 and 2.5 nats; not listed by the server, probability 10.0 % here; " +
      "most likely: “a”, other model “c”",
  );
  // The shade is of the least that the divergence can be.
  assert.deepEqual(
    tokens.map((node) => /s\d/.exec(node.className)?.[0]),
    ["s1", "s2"],
  );
  assert.deepEqual(
    tokens.map((node) => node.querySelector("sup") !== null),
    [false, true],
  );
  await click(tokens[1]);
  assert.deepEqual(chosen, [1]);
  assert.equal(root.querySelector(".bs-status").textContent, `${other}.`);
});

test("the summary says where they differ first, and that the tokenizers differ", () => {
  const words = draw().root.querySelector(".bs-summary").textContent;
  assert.ok(words.startsWith("The mean KL divergence per token is between 0.21 and 1.3 nats."));
  assert.ok(words.includes("Both find the same token most probable at 1 of 2 places."));
  assert.ok(words.includes("They differ first at token 2."));
  assert.ok(words.endsWith("so the tokenizers differ."));
  const same = draw({ first_difference: null, same_prompt: true }).root.querySelector(
    ".bs-summary",
  );
  assert.ok(!/differ first|tokenizers/.test(same.textContent));
});
