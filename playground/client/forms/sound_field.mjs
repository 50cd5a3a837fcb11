// The sound input: a file, a recording or an example.
import { peaksOf } from "../../../visualizers/media/peaks.mjs";
import { button, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { secondsOf, sizeOf } from "../shell/file_sizes.mjs";
import { declared } from "../shell/spec.mjs";
import { shareOf } from "../shell/wav.mjs";
import { MediaField } from "./media_field.mjs";
import { Recorder } from "./microphone.mjs";
import { reasonOf } from "./picture_field.mjs";

const WORDS = {
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
  /** @type {Recorder | null} */
  #recorder = null;
  // Number of the latest request for the microphone; an answer to an older one is dropped.
  #asked = 0;

  /**
   * @param {string} id
   * @param {() => void} changed
   */
  constructor(id, changed) {
    super("audio", id, WORDS, changed);
    this.record = button(tr("Record"), () => this.#begin(), { class: "dp-btn md-record" });
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
    const { seconds } = declared().media.limits.audio;
    this.most = Math.min(seconds, window ?? seconds);
    this.record.title = tr("Up to {seconds} seconds", { seconds: this.most });
  }

  /** @param {import("../shell/visitor_media.mjs").Given} given */
  figure({ src, bytes, seconds, peaks, title }) {
    const facts = [title, seconds && secondsOf(seconds), bytes && sizeOf(bytes)];
    const name = tr("The sound that the model is given");
    return el(
      "figure",
      { class: "md-figure md-sound" },
      peaks?.length ? peaksOf(peaks, seconds) : null,
      src ? el("audio", { src, controls: true, preload: "metadata", "aria-label": name }) : null,
      el("figcaption", {}, facts.filter(Boolean).join(" · ")),
    );
  }

  async #begin() {
    this.begin();
    const asked = ++this.#asked;
    const recorder = new Recorder();
    try {
      await recorder.open();
    } catch (error) {
      recorder.close();
      if (asked === this.#asked)
        this.wrong(tr("The browser gives no microphone: {reason}.", { reason: reasonOf(error) }));
      return;
    }
    if (asked !== this.#asked) return recorder.close();
    this.#recorder = recorder;
    this.#show(recorder);
  }

  /** @param {Recorder} recorder */
  #show(recorder) {
    const bar = el("meter", { min: 0, max: 1, value: 0, "aria-label": tr("Level") });
    const words = el("span", { class: "md-level" });
    const told = el("p", { class: "f-help", role: "status" });
    const { most } = this;
    told.textContent = tr("Recording, up to {seconds} seconds.", { seconds: most });
    const end = button(tr("Stop recording"), () => this.#end(), { class: "dp-btn f-go" });
    const leave = () => {
      this.stop();
      this.record.focus();
    };
    const cancel = button(tr("Cancel"), leave);
    this.live.replaceChildren(
      told,
      el("div", { class: "md-meter" }, bar, words),
      el("div", { class: "md-acts" }, end, cancel),
    );
    this.box.classList.add("md-busy");
    end.focus();
    recorder.watch((seconds, level) => {
      bar.value = shareOf(level);
      words.textContent = tr("{seconds} s of {most} s · {level} dB", {
        seconds: seconds.toFixed(0),
        most,
        level: String(level).replace("-", "−"),
      });
      if (seconds >= most) this.#end();
    });
  }

  async #end() {
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
