// Questions to the server with one answer each, over a hidden element.
import { tr } from "../../visualizers/shared/tr.mjs";
import { namesOf, withMedia } from "./given_media.mjs";

const waiting = new Map();
let send = null;
let number = 0;

let isConnected = null;

// Kept when the element is there, over which questions go.
export const connectedAsk = new Promise((done) => {
  isConnected = done;
});

export function connectAsk(f) {
  send = f;
  isConnected();
  return { receive };
}

export const ask = (data) => {
  // What a run was given is looked for among what the reader of this page has sent.
  const own = data.trace?.media?.length ? namesOf(data.trace) : null;
  return own ? withMedia(own).then(({ visitor }) => put({ ...data, visitor })) : put(data);
};

const put = (data) =>
  new Promise((done) => {
    if (!send) return done({ error: tr("The page is not connected yet; try again in a moment.") });
    waiting.set(++number, done);
    send({ id: number, ...data });
  });

function receive(text) {
  if (!text) return;
  const message = JSON.parse(text);
  const done = waiting.get(message.id);
  waiting.delete(message.id);
  if (done) done(message);
}
