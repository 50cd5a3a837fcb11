// Questions to the server over a hidden Gradio element; each has one answer.
import { parseMessage } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { runMediaNames, withMedia } from "./visitor_media.mjs";

/** @type {Map<number, (answer: any) => void>} */
const waiting = new Map();
/** @type {((question: object) => void) | null} */
let send = null;
let number = 0;

let resolveReady = () => {};

/**
 * Resolves once the hidden element is connected.
 * @type {Promise<void>}
 */
export const questionsReady = new Promise((done) => {
  resolveReady = done;
});

/**
 * Connect the hidden element: `f` sends a question, the result takes the answers.
 * @param {(question: object) => void} f
 */
export function connectQuestions(f) {
  send = f;
  resolveReady();
  return { receive: receiveAnswer };
}

/**
 * Send a question and resolve with its answer; a failure is an answer with `error`.
 * @param {Record<string, any>} data
 * @returns {Promise<any>}
 */
export const askServer = (data) => {
  // The server needs the visitor's id to find the media that this visitor uploaded.
  const own = data.trace?.media?.length ? runMediaNames(data.trace) : null;
  return own
    ? withMedia(own).then(({ visitor }) => sendQuestion({ ...data, visitor }))
    : sendQuestion(data);
};

/**
 * Send a question once the hidden element is connected.
 * @param {Record<string, any>} data
 * @returns {Promise<any>}
 */
export async function askWhenReady(data) {
  await questionsReady;
  return askServer(data);
}

/**
 * @param {object} data
 * @returns {Promise<any>}
 */
const sendQuestion = (data) =>
  new Promise((done) => {
    if (!send) return done({ error: tr("The page is not connected yet; try again in a moment.") });
    waiting.set(++number, done);
    send({ id: number, ...data });
  });

/** @param {string} text */
function receiveAnswer(text) {
  if (!text) return;
  const message = parseMessage(text);
  const done = waiting.get(message.id);
  waiting.delete(message.id);
  if (done) done(message);
}
