// The event stream of a classroom, opened again whenever it ends or breaks. The server ends each
// stream after two minutes and sends something every few seconds: silence means a dead connection.
import { parseMessage, readMessage, said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { secretHeader } from "./room_requests.mjs";

const SILENT_MS = 40_000;
const RETRY_WAITS_MS = [500, 1000, 2000, 4000, 8000];
const LONGEST_WAIT_MS = 15_000;

/**
 * @typedef {object} Listener
 * @property {(name: string, data: any) => void} heard called with each event
 * @property {(connected: boolean) => void} line called with whether the server can be reached
 * @property {(sentence: string) => void} over called with the reason when the stream ends for good
 */

/**
 * Listen to a classroom until it ends. Returns a function that stops listening.
 * @param {string} code
 * @param {Listener} listener
 * @param {string} [secret] the teacher's secret
 */
export function listenToRoom(code, listener, secret) {
  const leaving = new AbortController();
  keepListening(code, listener, secret, leaving.signal);
  return () => leaving.abort();
}

/**
 * @param {string} code
 * @param {Listener} listener
 * @param {string | undefined} secret
 * @param {AbortSignal} leaving
 */
async function keepListening(code, listener, secret, leaving) {
  for (let failed = 0; !leaving.aborted; ) {
    const found = await readStreamOnce(code, listener, secret, leaving);
    if (leaving.aborted || found === "over") return;
    failed = found === "broken" ? failed + 1 : 0;
    if (failed) listener.line(false);
    await sleepUnlessAborted(RETRY_WAITS_MS[failed] ?? LONGEST_WAIT_MS, leaving);
  }
}

/**
 * Read one stream. Returns "over" if the room has ended, "broken" if the stream failed, and "ended"
 * if the server closed it.
 * @param {string} code
 * @param {Listener} listener
 * @param {string | undefined} secret
 * @param {AbortSignal} leaving
 */
async function readStreamOnce(code, listener, secret, leaving) {
  const line = new AbortController();
  const cut = () => line.abort();
  leaving.addEventListener("abort", cut);
  let timer = setTimeout(cut, SILENT_MS);
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(cut, SILENT_MS);
  };
  try {
    const place = new URL(`room/${code}/events`, document.baseURI);
    const answer = await fetch(place, {
      headers: secretHeader(secret),
      signal: line.signal,
      cache: "no-store",
    });
    if (!answer.ok) return await handleRefusal(answer, listener);
    listener.line(true);
    return answer.body ? await readEvents(answer.body, listener, alive) : "broken";
  } catch {
    return "broken";
  } finally {
    clearTimeout(timer);
    leaving.removeEventListener("abort", cut);
  }
}

/**
 * @param {Response} answer
 * @param {Listener} listener
 */
async function handleRefusal(answer, listener) {
  if (answer.status === 429 || answer.status >= 500) return "broken";
  const found = await readMessage(answer).catch(() => ({}));
  listener.over(found.error ? said(found.error) : endedText());
  return "over";
}

/**
 * @param {ReadableStream<Uint8Array<ArrayBuffer>>} body
 * @param {Listener} listener
 * @param {() => void} alive called whenever something has come
 */
async function readEvents(body, listener, alive) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  for (let text = ""; ; ) {
    const { done, value } = await reader.read();
    if (done) return "ended";
    alive();
    const parts = (text + decoder.decode(value, { stream: true })).split("\n\n");
    text = parts.pop() ?? "";
    for (const part of parts) {
      const [name, data] = parseEvent(part);
      if (name === "ended") {
        listener.over(endedText());
        return "over";
      }
      if (name) listener.heard(name, data);
    }
  }
}

/**
 * @param {string} part
 * @returns {[string, any]} name and data of an event; a keep-alive has no name
 */
function parseEvent(part) {
  const lines = part.split("\n");
  /** @param {string} start */
  const after = (start) => lines.find((line) => line.startsWith(start))?.slice(start.length);
  const name = after("event: ");
  return name ? [name, parseMessage(after("data: ") ?? "")] : ["", null];
}

const endedText = () => tr("This room has ended.");

/**
 * Resolve after some milliseconds, or at once when aborted.
 * @param {number} ms
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
const sleepUnlessAborted = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
