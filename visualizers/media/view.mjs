// View of the pictures and sounds that the model was given, above its text.
import { el } from "../shared/dom.mjs";
import { listSpeechSettings } from "../shared/speech.mjs";
import { formatSeconds } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { drawPeaks } from "./peaks.mjs";

/** @import { MediaInfo } from "../shared/trace.d.ts" */

const TITLE = tr("What the model was given");
const SOUND_LABEL = tr("The sound that the model was given");
const EXAMPLES_PATH = "./media/example/";
const HASH_DIGITS = 12;

/** @param {MediaInfo} item */
const exampleText = ({ example }) => example && tr("example {name}", { name: example });

/** @param {MediaInfo} item */
const createHash = ({ sha256 }) =>
  el("span", { class: "md-hash", title: sha256 }, `sha256 ${sha256.slice(0, HASH_DIGITS)}…`);

/** @param {...Content} facts */
const createCaption = (...facts) =>
  el(
    "figcaption",
    {},
    facts.filter(Boolean).flatMap((fact, i) => (i ? [" · ", fact] : [fact])),
  );

/** @param {any} info */
function createPictureFigure(info) {
  const { width, height, preview } = info;
  const size = tr("{width} × {height} pixels", { width, height });
  const alt = info.alt || tr("The picture that the model was given, {size}", { size });
  // A trace file can contain anything, so text that is not base64 must not become a URL.
  const src = /^[A-Za-z0-9+/=]+$/.test(preview ?? "") ? `data:image/jpeg;base64,${preview}` : "";
  const picture = src ? el("img", { src, alt }) : null;
  return el(
    "figure",
    { class: "md-input" },
    picture,
    createCaption(tr("Picture"), exampleText(info), size, createHash(info)),
  );
}

/** @param {any} info */
function createSoundFigure(info) {
  const { seconds, rate, peaks, src } = info;
  const long = formatSeconds(seconds ?? 0);
  const pace = rate && tr("{n} Hz", { n: rate });
  return el(
    "figure",
    { class: "md-input" },
    peaks?.length ? drawPeaks(peaks, seconds) : null,
    // Only the built-in examples are on the server.
    src?.startsWith(EXAMPLES_PATH)
      ? el("audio", { src, controls: true, preload: "none", "aria-label": SOUND_LABEL })
      : null,
    createCaption(tr("Sound"), exampleText(info), long, pace, createHash(info)),
  );
}

/**
 * Figures of a run's media.
 * @param {any[]} given
 */
export const createMediaFigures = (given) =>
  given.map((one) => (one.kind === "image" ? createPictureFigure(one) : createSoundFigure(one)));

/**
 * A line with the parameters of a speech model, null if none are set.
 * @param {Run} run
 */
function createSpeechNote({ speech }) {
  const told = listSpeechSettings(speech).map((pair) => pair.join(" "));
  return told.length
    ? el("p", { class: "md-told" }, tr("Also given: {what}", { what: told.join(" · ") }))
    : null;
}

/** @type {ViewSpec} */
export const media = {
  title: TITLE,
  heading: false,
  mount(root) {
    const card = root.parentElement ?? root;
    card.hidden = true;
    let known = "";
    return {
      update(run) {
        const given = run.source?.given ?? run.media ?? [];
        card.hidden = !given.length;
        const key = JSON.stringify([given.map((one) => one.sha256), run.speech]);
        if (key === known) return;
        known = key;
        root.replaceChildren(...createMediaFigures(given), createSpeechNote(run) ?? "");
      },
      select() {},
      clear() {
        known = "";
        card.hidden = true;
      },
    };
  },
};
