// Requests to a classroom: JSON in both directions.
import { readMessage, said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

/**
 * Post to a classroom and return its answer. Throws an Error with a sentence for the reader.
 * @param {string} place relative to the playground's page
 * @param {any} told the request's body
 * @param {string} [secret] the teacher's secret
 */
export async function postToRoom(place, told, secret) {
  const headers = { "content-type": "application/json", ...secretHeader(secret) };
  const url = new URL(place, document.baseURI);
  let answer;
  try {
    answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(told) });
  } catch {
    throw new Error(tr("The server cannot be reached. Try again."));
  }
  const found = await readMessage(answer).catch(() => ({}));
  if (!answer.ok) {
    const unknown = tr("The server answered {status}.", { status: answer.status });
    throw new Error(found.error ? said(found.error) : unknown);
  }
  return found;
}

/**
 * Return the header with the teacher's secret, if there is one.
 * @param {string} [secret]
 * @returns {Record<string, string>}
 */
export const secretHeader = (secret) => (secret ? { "x-room-secret": secret } : {});
