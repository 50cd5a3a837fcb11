// Questions to the server with one answer each, over a hidden element.
const waiting = new Map();
let send = null;
let number = 0;

export function connectAsk(f) {
  send = f;
  return { receive };
}

// Register a question asked over another element; its answer comes back here under this number.
export function expect(done) {
  waiting.set(++number, done);
  return number;
}

export const ask = (data) =>
  new Promise((done) => {
    if (send) send({ id: expect(done), ...data });
    else done({ error: "The page is not connected yet; try again in a moment." });
  });

function receive(text) {
  if (!text) return;
  const message = JSON.parse(text);
  const done = waiting.get(message.id);
  waiting.delete(message.id);
  if (done) done(message);
}
