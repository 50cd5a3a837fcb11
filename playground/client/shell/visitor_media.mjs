// Pictures and sounds that the visitor gives a model: uploaded once, then named by their hash.
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { sizeOf } from "./file_sizes.mjs";
import { newName, pageName } from "./pending_runs.mjs";
import { declared } from "./spec.mjs";

/**
 * @typedef {"image" | "audio"} Kind
 * @typedef {object} Given
 * @property {string} given its name in a form: "example:" and a name, or "held:" and a hash
 * @property {string} sha256
 * @property {string} [src] URL to show or play it, empty if this page has no copy
 * @property {string} [title] of an example
 * @property {string} [alt] description of its content
 * @property {number} [bytes]
 * @property {number} [width]
 * @property {number} [height]
 * @property {number} [seconds]
 * @property {number} [rate]
 * @property {string} [preview]
 * @property {number[]} [peaks]
 */

export const KINDS = /** @type {const} */ (["image", "audio"]);
const EXAMPLE = "example:";
const HELD = "held:";
const KEPT = 8;
const SEEN = 64;

// Used if the browser blocks session storage: then the id changes on every reload.
const own = newName();
/** Return the id by which the server keeps this visitor's uploads apart. */
export const visitor = () => pageName() || own;

// Name -> upload of this page, to upload again if the server has deleted it.
/** @type {Map<string, { kind: Kind, blob: Blob, given: Given }>} */
const sent = new Map();

// Name -> media of recorded runs, with the small preview in the record.
/** @type {Map<string, Given>} */
const seen = new Map();

const limitOf = (kind) => declared().media.limits[kind];

/**
 * Return an error sentence if a file exceeds the size limit, else "".
 * @param {Kind} kind
 * @param {Blob} blob
 */
export function tooLarge(kind, { size }) {
  const most = limitOf(kind).bytes;
  if (size <= most) return "";
  const values = { size: sizeOf(size), most: sizeOf(most) };
  return kind === "image"
    ? tr("This picture has {size}; up to {most} can be sent.", values)
    : tr("This sound has {size}; up to {most} can be sent.", values);
}

/** An upload failed; the message is a sentence for the visitor. */
export class Refused extends Error {}

/**
 * Upload a file and return the server's answer.
 * @param {Kind} kind
 * @param {Blob} blob
 * @returns {Promise<any>}
 */
async function post(kind, blob) {
  let answer = null;
  try {
    answer = await fetch(new URL(`./media/${kind}`, document.baseURI), {
      method: "POST",
      body: blob,
      headers: { "X-Visitor": visitor() },
    });
  } catch {
    throw new Refused(tr("The server cannot be reached; try again when it is back."));
  }
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok)
    throw new Refused(
      told.error ? said(told.error) : tr("The server did not take it; try again in a moment."),
    );
  return told;
}

/**
 * Upload a file and remember it; throws ``Refused`` if it is too large or the server rejects it.
 * @param {Kind} kind
 * @param {Blob} blob
 * @returns {Promise<Given>}
 */
export async function send(kind, blob) {
  const wrong = tooLarge(kind, blob);
  if (wrong) throw new Refused(wrong);
  const told = await post(kind, blob);
  const given = { ...told, src: URL.createObjectURL(blob) };
  const before = sent.get(told.given);
  if (before) URL.revokeObjectURL(before.given.src);
  sent.delete(told.given);
  sent.set(told.given, { kind, blob, given });
  while (sent.size > KEPT) {
    const [first] = sent.keys();
    URL.revokeObjectURL(sent.get(first).given.src);
    sent.delete(first);
  }
  return given;
}

/**
 * Return what this page knows about the media with a name, null if it knows nothing.
 * @param {Kind} kind
 * @param {string} name
 * @returns {Given | null}
 */
export function known(kind, name) {
  if (name.startsWith(EXAMPLE)) {
    const example = exampleOf(kind, name);
    return example ? { ...example, given: name } : null;
  }
  return sent.get(name)?.given ?? seen.get(name) ?? null;
}

/**
 * Remember the media of a run with their previews.
 * @param {{ media?: any[] }} run
 */
export function remember({ media = [] }) {
  for (const info of media) {
    const name = `${HELD}${info.sha256}`;
    if (info.example || seen.has(name)) continue;
    const src = info.preview ? `data:image/jpeg;base64,${info.preview}` : "";
    seen.set(name, { ...info, given: name, src });
    if (seen.size > SEEN) seen.delete(seen.keys().next().value);
  }
}

export const examplesOf = (kind) => declared().media.examples[kind] ?? [];

const exampleOf = (kind, name) =>
  examplesOf(kind).find((e) => `${EXAMPLE}${e.name}` === name) ?? null;

export const isExample = (name) => name.startsWith(EXAMPLE);
export const isHeld = (name) => name.startsWith(HELD);
export const exampleNamed = (name) => `${EXAMPLE}${name}`;

/**
 * Return the form names of a run's picture and sound, null for none.
 * @param {{ media?: any[] }} run
 * @returns {Record<Kind, string | null>}
 */
export function namesOf({ media = [] }) {
  const name = (kind) => {
    const info = media.find((m) => m.kind === kind);
    if (!info) return null;
    return info.example ? `${EXAMPLE}${info.example}` : `${HELD}${info.sha256}`;
  };
  return { image: name("image"), audio: name("audio") };
}

const namedIn = (asked) =>
  [asked, ...(asked.columns ?? [])].flatMap((one) =>
    KINDS.map((kind) => /** @type {const} */ ([kind, one[kind]])).filter(([, name]) => name),
  );

/**
 * Return the form, with the visitor's id if it names uploads. Uploads that the server has deleted
 * are uploaded again first.
 * @template {Record<string, any>} T
 * @param {T} asked
 * @returns {Promise<T & { visitor?: string }>}
 */
export async function withMedia(asked) {
  const own = [...new Set(namedIn(asked).map(([, name]) => name))].filter(isHeld);
  if (!own.length) return asked;
  // If an upload fails, the run itself reports what is missing.
  await Promise.all(own.map((name) => renew(name).catch(() => {})));
  return { ...asked, visitor: visitor() };
}

async function renew(name) {
  const mine = sent.get(name);
  if (!mine) return;
  const digest = name.slice(HELD.length);
  const address = new URL(`./media/${mine.kind}/${digest}`, document.baseURI);
  const { here } = await fetch(address, { headers: { "X-Visitor": visitor() } }).then((a) =>
    a.json(),
  );
  if (!here) await post(mine.kind, mine.blob);
}

/**
 * Return the sentence that a link does not contain the run's media.
 * @param {string[]} kinds
 */
export const notPartOf = ([kind]) =>
  kind === "image"
    ? tr("The picture of this run is not part of the link: choose it again, and press Run.")
    : tr("The sound of this run is not part of the link: choose it again, and press Run.");

/**
 * Whether an address names uploads, which only this visitor can use.
 * @param {string} search
 */
export function isOwn(search) {
  const query = new URLSearchParams(search);
  const form = JSON.parse(query.get("form") ?? "{}");
  return namedIn({ ...Object.fromEntries(query), ...form }).some(([, name]) => isHeld(name));
}
