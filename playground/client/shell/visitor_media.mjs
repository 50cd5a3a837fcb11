// Pictures and sounds that the visitor gives a model: uploaded once, then named by their hash.
import { readMessage, said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { formatSize } from "./file_sizes.mjs";
import { browserTabId, randomId } from "./ids.mjs";
import { getDeclaration } from "./spec.mjs";

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
const EXAMPLE_PREFIX = "example:";
const UPLOAD_PREFIX = "held:";
const MAX_SENT = 8;
const MAX_SEEN = 64;

// Used if the browser blocks session storage: then the id changes on every reload.
const fallbackId = randomId();
/** Return the id by which the server keeps this visitor's uploads apart. */
export const visitorId = () => browserTabId() || fallbackId;

// Name -> upload of this page, to upload again if the server has deleted it.
/** @type {Map<string, { kind: Kind, blob: Blob, given: Given }>} */
const sentMedia = new Map();

// Name -> media of recorded runs, with the small preview in the record.
/** @type {Map<string, Given>} */
const seenMedia = new Map();

/** @param {Kind} kind */
const mediaLimit = (kind) => getDeclaration().media.limits[kind];

/**
 * Return an error sentence if a file exceeds the size limit, else "".
 * @param {Kind} kind
 * @param {Blob} blob
 */
export function sizeError(kind, { size }) {
  const most = mediaLimit(kind).bytes;
  if (size <= most) return "";
  const values = { size: formatSize(size), most: formatSize(most) };
  return kind === "image"
    ? tr("This picture has {size}; up to {most} can be sent.", values)
    : tr("This sound has {size}; up to {most} can be sent.", values);
}

/** An upload failed; the message is a sentence for the visitor. */
export class MediaError extends Error {}

/**
 * Upload a file and return the server's answer.
 * @param {Kind} kind
 * @param {Blob} blob
 * @returns {Promise<any>}
 */
async function uploadMedia(kind, blob) {
  let answer = null;
  try {
    answer = await fetch(new URL(`./media/${kind}`, document.baseURI), {
      method: "POST",
      body: blob,
      headers: { "X-Visitor": visitorId() },
    });
  } catch {
    throw new MediaError(tr("The server cannot be reached; try again when it is back."));
  }
  const told = await readMessage(answer).catch(() => ({}));
  if (!answer.ok)
    throw new MediaError(
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
export async function sendMedia(kind, blob) {
  const wrong = sizeError(kind, blob);
  if (wrong) throw new MediaError(wrong);
  const told = await uploadMedia(kind, blob);
  const given = { ...told, src: URL.createObjectURL(blob) };
  const before = sentMedia.get(told.given);
  if (before) URL.revokeObjectURL(before.given.src ?? "");
  sentMedia.delete(told.given);
  sentMedia.set(told.given, { kind, blob, given });
  while (sentMedia.size > MAX_SENT) {
    const [[first, oldest]] = sentMedia;
    URL.revokeObjectURL(oldest.given.src ?? "");
    sentMedia.delete(first);
  }
  return given;
}

/**
 * Return what this page knows about the media with a name, null if it knows nothing.
 * @param {Kind} kind
 * @param {string} name
 * @returns {Given | null}
 */
export function findMedia(kind, name) {
  if (name.startsWith(EXAMPLE_PREFIX)) {
    const example = findExample(kind, name);
    return example ? { ...example, given: name } : null;
  }
  return sentMedia.get(name)?.given ?? seenMedia.get(name) ?? null;
}

/**
 * Remember the media of a run with their previews.
 * @param {{ media?: any[] }} run
 */
export function rememberMedia({ media = [] }) {
  for (const info of media) {
    const name = `${UPLOAD_PREFIX}${info.sha256}`;
    if (info.example || seenMedia.has(name)) continue;
    const src = info.preview ? `data:image/jpeg;base64,${info.preview}` : "";
    seenMedia.set(name, { ...info, given: name, src });
    if (seenMedia.size > MAX_SEEN) seenMedia.delete([...seenMedia.keys()][0]);
  }
}

/**
 * @param {Kind} kind
 * @returns {any[]}
 */
export const listExamples = (kind) => getDeclaration().media.examples[kind] ?? [];

/**
 * @param {Kind} kind
 * @param {string} name
 */
const findExample = (kind, name) =>
  listExamples(kind).find((e) => `${EXAMPLE_PREFIX}${e.name}` === name) ?? null;

/** @param {string} name */
export const isExample = (name) => name.startsWith(EXAMPLE_PREFIX);
/** @param {string} name */
export const isUpload = (name) => name.startsWith(UPLOAD_PREFIX);
/** @param {string} name */
export const exampleId = (name) => `${EXAMPLE_PREFIX}${name}`;

/**
 * Return the form names of a run's picture and sound, null for none.
 * @param {{ media?: any[] }} run
 * @returns {Record<Kind, string | null>}
 */
export function runMediaNames({ media = [] }) {
  /** @param {Kind} kind */
  const name = (kind) => {
    const info = media.find((m) => m.kind === kind);
    if (!info) return null;
    return info.example ? `${EXAMPLE_PREFIX}${info.example}` : `${UPLOAD_PREFIX}${info.sha256}`;
  };
  return { image: name("image"), audio: name("audio") };
}

/**
 * @param {Record<string, any>} asked
 * @returns {[Kind, string][]}
 */
const namedMedia = (asked) =>
  [asked, ...(asked.columns ?? [])].flatMap((one) =>
    KINDS.flatMap((kind) => (one[kind] ? [/** @type {[Kind, string]} */ ([kind, one[kind]])] : [])),
  );

/**
 * Return the form, with the visitor's id if it names uploads. Uploads that the server has deleted
 * are uploaded again first.
 * @template {Record<string, any>} T
 * @param {T} asked
 * @returns {Promise<T & { visitor?: string }>}
 */
export async function withMedia(asked) {
  const own = [...new Set(namedMedia(asked).map(([, name]) => name))].filter(isUpload);
  if (!own.length) return asked;
  // If an upload fails, the run itself reports what is missing.
  await Promise.all(own.map((name) => uploadIfMissing(name).catch(() => {})));
  return { ...asked, visitor: visitorId() };
}

/** @param {string} name */
async function uploadIfMissing(name) {
  const mine = sentMedia.get(name);
  if (!mine) return;
  const digest = name.slice(UPLOAD_PREFIX.length);
  const address = new URL(`./media/${mine.kind}/${digest}`, document.baseURI);
  const { here } = await fetch(address, { headers: { "X-Visitor": visitorId() } }).then((a) =>
    a.json(),
  );
  if (!here) await uploadMedia(mine.kind, mine.blob);
}

/**
 * Return the sentence that a link does not contain the run's media.
 * @param {string[]} kinds
 */
export const mediaMissingSentence = ([kind]) =>
  kind === "image"
    ? tr("The picture of this run is not part of the link: choose it again, and press Run.")
    : tr("The sound of this run is not part of the link: choose it again, and press Run.");

/**
 * Whether an address names uploads, which only this visitor can use.
 * @param {string} search
 */
export function linksUploads(search) {
  const query = new URLSearchParams(search);
  const form = JSON.parse(query.get("form") ?? "{}");
  return namedMedia({ ...Object.fromEntries(query), ...form }).some(([, name]) => isUpload(name));
}
