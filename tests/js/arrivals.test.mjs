// What the server renders is translated when it arrives on the page.
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseHTML } from "linkedom";

const GERMAN = {
  "{n} steps of {name}.": "{n} Schritte von {name}.",
  "The file is empty.": "Die Datei ist leer.",
};
const { window, document } = parseHTML(
  `<!doctype html><html><body><i id="dp-texts" lang="de">{}</i><main></main></body></html>`,
);
const told = document.createElement("i");
told.id = "dp-told";
told.textContent = JSON.stringify(GERMAN);
document.body.append(told);
const { MutationObserver } = window;
Object.assign(globalThis, { document, MutationObserver, NodeFilter: { SHOW_TEXT: 4 } });
const { translateArrivals } = await import("../../visualizers/shared/server_text.mjs");

const main = document.querySelector("main");
translateArrivals(main);

/** A sentence as the server marks it. */
function mark(node, text, values) {
  const found = values ? { [text]: { template: "{n} steps of {name}.", values } } : {};
  node.textContent = text;
  node.setAttribute("data-templates", JSON.stringify(found));
}

/** Put a marked sentence on the page, and return its element when it was noticed. */
async function arrive(text, values) {
  const node = document.createElement("p");
  mark(node, text, values);
  main.replaceChildren(node);
  await new Promise(setImmediate);
  return node;
}

test("a sentence with values is translated when it arrives", async () => {
  const note = await arrive("3 steps of greedy.", { n: "3", name: "greedy" });
  assert.equal(note.textContent, "3 Schritte von greedy.");
});

test("a sentence without values is translated when it arrives", async () => {
  assert.equal((await arrive("The file is empty.")).textContent, "Die Datei ist leer.");
});

test("a sentence is translated that replaces another one in the same element", async () => {
  const note = await arrive("3 steps of greedy.", { n: "3", name: "greedy" });
  mark(note, "4 steps of dola.", { n: "4", name: "dola" });
  await new Promise(setImmediate);
  assert.equal(note.textContent, "4 Schritte von dola.");
});

test("a number is translated once", async () => {
  const note = await arrive("1,234", undefined);
  main.append(document.createElement("b"));
  await new Promise(setImmediate);
  assert.equal(note.textContent, "1.234");
});

test("what nobody marked stays as it is", async () => {
  const note = document.createElement("p");
  note.textContent = "The file is empty.";
  main.replaceChildren(note);
  await new Promise(setImmediate);
  assert.equal(note.textContent, "The file is empty.");
});
