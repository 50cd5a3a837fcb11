// The sound input: a file, a recording or an example.
import { drawPeaks } from "../../../visualizers/media/peaks.mjs";
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { formatFixed, formatSeconds } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { formatSize } from "../shell/file_sizes.mjs";
import { getDeclaration } from "../shell/spec.mjs";
import { levelShare } from "../shell/wav.mjs";
import { MediaField } from "./media_field.mjs";
import { MicrophoneRecorder } from "./microphone.mjs";
import { deviceErrorReason } from "./picture_field.mjs";

const FIELD_TEXTS = {
  title: tr("Sound"),
  hint: tr("Drop a sound here, or"),
  remove: tr("Remove the sound"),
  removed: tr("The sound is removed."),
  needed: tr("This model needs a sound: choose one, or record one."),
  examples: tr("Or one of these:"),
};

const hasMicrophone = async () => {
  const found = await navigator.mediaDevices?.enumerateDevices?.().catch(() => []);
  return (found ?? []).some(({ kind }) => kind === "audioinput");
};

/** The form field for a model's sound. */
export class SoundField extends MediaField {
  /** @type {MicrophoneRecorder | null} */
  #recorder = null;
  /** Longest recording in seconds. */
  most = 0;
  // Number of the latest request for the microphone; an answer to an older one is dropped.
  #asked = 0;

  /**
   * @param {string} id
   * @param {() => void} changed
   */
  constructor(id, changed) {
    super("audio", id, FIELD_TEXTS, changed);
    this.record = createButton(tr("Record"), () => this.#startRecording(), {
      class: "dp-btn md-record",
    });
    this.hears(null);
    this.record.hidden = true;
    this.acts.append(this.record);
    hasMicrophone().then((is) => {
      this.record.hidden = !is;
    });
    addEventListener("pagehide", () => this.stop());
  }

  /**
   * Limit a recording to what the model hears.
   * @param {number | null} window the model's limit in seconds, null if unknown
   */
  hears(window) {
    const { seconds } = getDeclaration().media.limits.audio;
    this.most = Math.min(seconds, window ?? seconds);
    this.record.title = tr("Up to {seconds} seconds", { seconds: this.most });
  }

  /** @param {import("../shell/visitor_media.mjs").Given} given */
  figure({ src, bytes, seconds, peaks, title }) {
    const facts = [title, seconds && formatSeconds(seconds), bytes && formatSize(bytes)];
    const name = tr("The sound that the model is given");
    return el(
      "figure",
      { class: "md-figure md-sound" },
      peaks?.length ? drawPeaks(peaks, seconds ?? null) : null,
      src ? el("audio", { src, controls: true, preload: "metadata", "aria-label": name }) : null,
      el("figcaption", {}, facts.filter(Boolean).join(" · ")),
    );
  }

  async #startRecording() {
    this.begin();
    const asked = ++this.#asked;
    const recorder = new MicrophoneRecorder();
    try {
      await recorder.open();
    } catch (error) {
      recorder.close();
      if (asked === this.#asked)
        this.wrong(
          tr("The browser gives no microphone: {reason}.", { reason: deviceErrorReason(error) }),
        );
      return;
    }
    if (asked !== this.#asked) return recorder.close();
    this.#recorder = recorder;
    this.#showMeter(recorder);
  }

  /** @param {MicrophoneRecorder} recorder */
  #showMeter(recorder) {
    const bar = el("meter", { min: 0, max: 1, value: 0, "aria-label": tr("Level") });
    const words = el("span", { class: "md-level" });
    const told = el("p", { class: "f-help", role: "status" });
    const { most } = this;
    told.textContent = tr("Recording, up to {seconds} seconds.", { seconds: most });
    const end = createButton(tr("Stop recording"), () => this.#finishRecording(), {
      class: "dp-btn f-go",
    });
    const leave = () => {
      this.stop();
      this.record.focus();
    };
    const cancel = createButton(tr("Cancel"), leave);
    this.live.replaceChildren(
      told,
      el("div", { class: "md-meter" }, bar, words),
      el("div", { class: "md-acts" }, end, cancel),
    );
    this.box.classList.add("md-busy");
    end.focus();
    recorder.watch((seconds, level) => {
      bar.value = levelShare(level);
      words.textContent = tr("{seconds} s of {most} s · {level} dB", {
        seconds: formatFixed(seconds, 0),
        most,
        level: formatFixed(level, 0),
      });
      if (seconds >= most) this.#finishRecording();
    });
  }

  async #finishRecording() {
    const recorder = this.#recorder;
    if (!recorder) return;
    this.#recorder = null;
    const asked = this.#asked;
    try {
      const file = await recorder.end(this.most);
      if (asked !== this.#asked) return;
      this.record.focus();
      this.take(file);
    } catch {
      this.stop();
      this.wrong(tr("The recording could not be read; record it again."));
    }
  }

  stop() {
    super.stop();
    this.#asked++;
    this.#recorder?.close();
    this.#recorder = null;
    this.box.classList.remove("md-busy");
  }
}
