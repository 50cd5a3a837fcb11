// Encodes samples as a WAV file and measures their level. The server needs no codec to read WAV.

/** Samples per second of a recording: the rate of speech models. */
export const SAMPLE_RATE = 16_000;
const HEADER_BYTES = 44;
const FULL_SCALE = 32_768;
const SILENCE_DB = -60;

/**
 * Encode a WAV file with one channel and 16 bits per sample.
 * @param {Float32Array} samples from -1 to 1; values beyond are clipped
 * @param {number} rate samples per second
 */
export function encodeWav(samples, rate = SAMPLE_RATE) {
  const bytes = samples.length * 2;
  const view = new DataView(new ArrayBuffer(HEADER_BYTES + bytes));
  /**
   * @param {number} at
   * @param {string} text
   */
  const letters = (at, text) => {
    for (let i = 0; i < text.length; i++) view.setUint8(at + i, text.charCodeAt(i));
  };
  letters(0, "RIFF");
  view.setUint32(4, HEADER_BYTES - 8 + bytes, true);
  letters(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  // PCM, one channel.
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, rate * 2, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  letters(36, "data");
  view.setUint32(40, bytes, true);
  for (let i = 0; i < samples.length; i++)
    view.setInt16(HEADER_BYTES + 2 * i, toInt16(samples[i]), true);
  return view.buffer;
}

/** @param {number} sample */
const toInt16 = (sample) =>
  Math.max(-FULL_SCALE, Math.min(FULL_SCALE - 1, Math.round(sample * FULL_SCALE)));

/**
 * @drawing The level of some samples in decibels relative to full scale, from -60 (silence) to 0.
 * @param {Float32Array} samples
 */
export function measureLevel(samples) {
  let sum = 0;
  for (const sample of samples) sum += sample * sample;
  const rms = Math.sqrt(sum / Math.max(1, samples.length));
  return Math.max(SILENCE_DB, Math.min(0, Math.round(20 * Math.log10(rms || 1e-9))));
}

/**
 * Convert a level in decibels to a share: 0 is silence, 1 is full scale.
 * @param {number} level
 */
export const levelShare = (level) => 1 - level / SILENCE_DB;
