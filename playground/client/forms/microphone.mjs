// Records the microphone to a WAV file with 16 kHz, one channel and 16 bits.
import { encodeWav, measureLevel, SAMPLE_RATE } from "../shell/wav.mjs";

const METER_INTERVAL_MS = 200;

/** One recording of the microphone. */
export class MicrophoneRecorder {
  /** @type {MediaStream | null} */
  #stream = null;
  /** @type {AudioContext | null} */
  #context = null;
  /** @type {MediaRecorder | null} */
  #taking = null;
  /** @type {Blob[]} */
  #parts = [];
  #timer = 0;

  /** Ask for the microphone and start recording. */
  async open() {
    this.#stream = await navigator.mediaDevices.getUserMedia({ audio: true, video: false });
    this.#context = new AudioContext();
    this.#taking = new MediaRecorder(this.#stream);
    this.#taking.addEventListener("dataavailable", ({ data }) => this.#parts.push(data));
    this.#taking.start();
  }

  /**
   * Report the elapsed time and the level five times a second.
   * @param {(seconds: number, level: number) => void} tell level in decibels below full scale
   */
  watch(tell) {
    if (!this.#context || !this.#stream) return;
    const began = performance.now();
    const hears = this.#context.createAnalyser();
    this.#context.createMediaStreamSource(this.#stream).connect(hears);
    const samples = new Float32Array(hears.fftSize);
    this.#timer = setInterval(() => {
      hears.getFloatTimeDomainData(samples);
      tell((performance.now() - began) / 1000, measureLevel(samples));
    }, METER_INTERVAL_MS);
  }

  /**
   * Stop and return the recording as a WAV file.
   * @param {number} most length limit in seconds; the rest is cut off
   * @returns {Promise<Blob>}
   */
  async end(most) {
    clearInterval(this.#timer);
    const [taking, context] = [this.#taking, this.#context];
    if (!taking || !context) throw new DOMException("", "InvalidStateError");
    const whole = new Promise((done) => {
      taking.addEventListener("stop", done, { once: true });
    });
    taking.stop();
    await whole;
    this.#release();
    const bytes = await new Blob(this.#parts).arrayBuffer();
    const heard = await context.decodeAudioData(bytes);
    const samples = await resample(heard, Math.min(most, heard.duration));
    this.close();
    return new Blob([encodeWav(samples)], { type: "audio/wav" });
  }

  // Stop the tracks at once, so that the browser's recording light goes out.
  #release() {
    for (const track of this.#stream?.getTracks() ?? []) track.stop();
    this.#stream = null;
  }

  close() {
    clearInterval(this.#timer);
    this.#release();
    if (this.#context && this.#context.state !== "closed") this.#context.close();
  }
}

/**
 * @param {AudioBuffer} heard
 * @param {number} long seconds to keep, from the start
 */
async function resample(heard, long) {
  const length = Math.max(1, Math.floor(long * SAMPLE_RATE));
  const quiet = new OfflineAudioContext(1, length, SAMPLE_RATE);
  const source = quiet.createBufferSource();
  source.buffer = heard;
  source.connect(quiet.destination);
  source.start();
  return (await quiet.startRendering()).getChannelData(0);
}
