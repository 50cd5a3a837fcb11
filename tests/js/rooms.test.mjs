// A room's news as they come over a line that breaks, and what a class bet as a table.
import assert from "node:assert/strict";
import { test } from "node:test";
import "./page.mjs";
import { createHistogram } from "../../playground/client/rooms/histogram.mjs";
import { listenToRoom } from "../../playground/client/rooms/room_events.mjs";
import { drawQrCode } from "../../playground/client/shell/qr.mjs";

document.baseURI = "http://127.0.0.1/";

const stream = (...parts) =>
  new Response(
    new ReadableStream({
      start(controller) {
        for (const part of parts) controller.enqueue(new TextEncoder().encode(part));
        controller.close();
      },
    }),
  );

// What a listener was told until it was told that it is over.
function heard(t, ...answers) {
  const asked = [];
  t.mock.method(globalThis, "fetch", async (url, { headers }) => {
    asked.push([new URL(url).pathname, headers]);
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  });
  const told = [];
  return new Promise((resolve) => {
    listenToRoom(
      "7K3XQM",
      {
        heard: (name, data) => told.push([name, data]),
        line: (connected) => told.push(connected),
        over: (sentence) => resolve({ asked, told: [...told, sentence] }),
      },
      "secret",
    );
  });
}

test("events are read however they are cut, and signs of life are none", async (t) => {
  const parts = ["event: scene\nda", 'ta: {"card":1}\n', "\n: still here\n\nevent: mine\nda"];
  const { told, asked } = await heard(t, stream(...parts, "ta: {}\n\nevent: ended\ndata: {}\n\n"));
  assert.deepEqual(told, [true, ["scene", { card: 1 }], ["mine", {}], "This room has ended."]);
  assert.deepEqual(asked, [["/room/7K3XQM/events", { "x-room-secret": "secret" }]]);
});

test("a line that breaks is opened again, and what the server refuses for good is said", async (t) => {
  const gone = new Response(JSON.stringify({ error: "There is no such room." }), { status: 404 });
  const busy = new Response("{}", { status: 503 });
  const { told } = await heard(
    t,
    new Error("no network"),
    busy,
    stream("event: scene\ndata: 1\n\n"),
    gone,
  );
  assert.deepEqual(told, [false, false, true, ["scene", 1], "There is no such room."]);
});

const text = (node) =>
  node
    .all()
    .filter((one) => one.name === "tr")
    .map((row) => row.textContent);

test("before the reveal a histogram says what was bet and nothing of what is right", () => {
  const bet = { kind: "token", options: [" a", " b"] };
  const tally = { kind: "token", votes: 4, counts: [1, 3], right: 3, perplexity: 2.5 };
  const before = createHistogram(bet, tally);
  assert.deepEqual(text(before), ["AnswerThe class", "“a”1 · 25 %", "“b”3 · 75 %"]);
  assert.ok(!before.textContent.includes("right"));
  const after = createHistogram(bet, tally, { right: [1], probabilities: [0.2, 0.5], value: null });
  assert.match(after.textContent, /“b”✓ right3/);
  assert.match(after.textContent, /3 of 4 bets were right\..*perplexity is 2\.5/);
});

test("a number is right in its bin, an order as a whole", () => {
  const bet = { kind: "number", unit: "percent", low: 0, high: 100, by: 1, tolerance: 10 };
  const bins = [
    [0, 50, 1],
    [50, 100, 2],
  ];
  const tally = { votes: 3, bins, median: 60, right: 2, perplexity: null };
  const key = { value: 100, right: [], probabilities: [] };
  assert.match(createHistogram(bet, tally, key).textContent, /50–100\u202f%✓ right2/);
  const order = { kind: "order", options: ["A", "B"] };
  const orders = { votes: 3, orders: [[[1, 0], 2]], others: 1, right: 2, perplexity: null };
  const found = createHistogram(order, orders, { right: [1, 0], probabilities: [], value: null });
  assert.match(found.textContent, /B › A✓ right2.*other orders1/);
});

test("a QR code has its quiet zone, and its runs are drawn in one path", () => {
  const code = drawQrCode(["110", "011"], "An address");
  assert.equal(code.attributes.viewBox, "0 0 10 10");
  assert.equal(code.childNodes[1].attributes.d, "M4 4h2v1h-2zM5 5h2v1h-2z");
});
