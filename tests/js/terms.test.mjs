// Terms in sentences, and what is read with them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { explain, mark, plain, term, told } from "../../visualizers/shared/terms.mjs";
import { found } from "./page.mjs";

const textOf = (parts) => parts.map((p) => (typeof p === "string" ? p : p.textContent)).join("");

test("a word without a meaning is a word", () => {
  explain({});
  const node = term("entropy");
  assert.equal(node.name, "span");
  assert.equal(node.textContent, "entropy");
});

test("a sentence keeps its words, and each term becomes a button that is described", () => {
  explain({ entropy: ["What is expected.", "Not right."], "top-p": ["Keeps some.", ""] });
  const parts = told("[entropy|Entropy] 2.1, after [top-p]; [logit] stays.");
  assert.equal(textOf(parts), "Entropy 2.1, after top-p; logit stays.");
  const [entropy, , topP, , logit] = parts;
  assert.deepEqual(
    [entropy, topP, logit].map((n) => n.name),
    ["button", "button", "span"],
  );
  const read = (node) => found(node.attributes["aria-describedby"]).textContent;
  assert.equal(read(entropy), "What is expected. Not right.");
  assert.equal(read(topP), "Keeps some.");
});

test("a meaning stands in the page once, however many words refer to it", () => {
  explain({ bit: ["A unit.", ""] });
  const [a, b] = [term("bit"), term("bit", "bits")];
  assert.equal(a.attributes["aria-describedby"], b.attributes["aria-describedby"]);
  assert.equal(b.textContent, "bits");
});

test("a mark beside a label says what it explains", () => {
  explain({ "top-k": ["Keeps k.", ""] });
  assert.equal(mark("top-k").attributes["aria-label"], "What is meant by top-k");
});

test("a term is called what it is called in the language of its reader", () => {
  explain({ entropy: ["Was zu erwarten ist.", "", "Entropie"], bit: ["A unit.", ""] });
  assert.equal(term("entropy").textContent, "Entropie");
  assert.equal(textOf(told("[entropy] in [bit]")), "Entropie in bit");
  assert.equal(textOf(told("hohe [entropy|Entropien]")), "hohe Entropien");
  assert.equal(plain("[entropy] in [bit]"), "Entropie in bit");
  assert.equal(mark("entropy").attributes["aria-label"], "What is meant by Entropie");
});

test("a sentence without its terms is a text, and brackets that are none stay", () => {
  assert.equal(plain("The [draw] of [token|tokens]"), "The draw of tokens");
  assert.deepEqual(told("no terms []"), ["no terms []"]);
});
