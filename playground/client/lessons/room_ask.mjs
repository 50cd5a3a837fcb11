// What a page tells a room: each request brings JSON and is answered with JSON.
import { said } from "../../../visualizers/shared/said.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

/**
 * @param {string} place relative to the playground's page
 * @param {any} told
 * @param {string} [secret] of the room's teacher
 */
export async function ask(place, told, secret) {
  const headers = { "content-type": "application/json", ...secretly(secret) };
  const url = new URL(place, document.baseURI);
  let answer;
  try {
    answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(told) });
  } catch {
    throw new Error(tr("The server cannot be reached. Try again."));
  }
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const unknown = tr("The server answered {status}.", { status: answer.status });
    throw new Error(found.error ? said(found.error) : unknown);
  }
  return found;
}

/** @param {string} [secret] */
export const secretly = (secret) => (secret ? { "x-room-secret": secret } : {});
