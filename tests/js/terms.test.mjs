// Terms in sentences, and what is read with them.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  createTermMark,
  renderTerms,
  setGlossary,
  stripTerms,
  term,
} from "../../visualizers/shared/terms.mjs";
import { found } from "./page.mjs";

const textOf = (parts) => parts.map((p) => (typeof p === "string" ? p : p.textContent)).join("");

test("a word without a meaning is a word", () => {
  setGlossary({});
  const node = term("entropy");
  assert.equal(node.name, "span");
  assert.equal(node.textContent, "entropy");
});

test("a sentence keeps its words, and each term becomes a button that is described", () => {
  setGlossary({ entropy: ["What is expected.", "Not right."], "top-p": ["Keeps some.", ""] });
  const parts = renderTerms("[entropy|Entropy] 2.1, after [top-p]; [logit] stays.");
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
  setGlossary({ bit: ["A unit.", ""] });
  const [a, b] = [term("bit"), term("bit", "bits")];
  assert.equal(a.attributes["aria-describedby"], b.attributes["aria-describedby"]);
  assert.equal(b.textContent, "bits");
});

test("a mark beside a label says what it explains", () => {
  setGlossary({ "top-k": ["Keeps k.", ""] });
  assert.equal(createTermMark("top-k").attributes["aria-label"], "What is meant by top-k");
});

test("a term is called what it is called in the language of its reader", () => {
  setGlossary({ entropy: ["Was zu erwarten ist.", "", "Entropie"], bit: ["A unit.", ""] });
  assert.equal(term("entropy").textContent, "Entropie");
  assert.equal(textOf(renderTerms("[entropy] in [bit]")), "Entropie in bit");
  assert.equal(textOf(renderTerms("hohe [entropy|Entropien]")), "hohe Entropien");
  assert.equal(stripTerms("[entropy] in [bit]"), "Entropie in bit");
  assert.equal(createTermMark("entropy").attributes["aria-label"], "What is meant by Entropie");
});

test("a sentence without its terms is a text, and brackets that are none stay", () => {
  assert.equal(stripTerms("The [draw] of [token|tokens]"), "The draw of tokens");
  assert.deepEqual(renderTerms("no terms []"), ["no terms []"]);
});
