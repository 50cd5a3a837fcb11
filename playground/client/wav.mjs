// Sound as numbers: from what a microphone gave to a file that every server can read without a codec.

/** Samples a second of what is sent: what models of speech listen at. */
export const RATE = 16_000;
const HEADER_BYTES = 44;
const FULL = 32_768;
const QUIETEST_DB = -60;

/**
 * A WAV file of one channel with 16 bits a sample.
 * @param {Float32Array} samples from -1 to 1; what is beyond is cut off
 * @param {number} rate samples a second
 */
export function wavOf(samples, rate = RATE) {
  const bytes = samples.length * 2;
  const view = new DataView(new ArrayBuffer(HEADER_BYTES + bytes));
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
    view.setInt16(HEADER_BYTES + 2 * i, wholeOf(samples[i]), true);
  return view.buffer;
}

const wholeOf = (sample) => Math.max(-FULL, Math.min(FULL - 1, Math.round(sample * FULL)));

/**
 * @drawing How loud a stretch of samples is, in decibels below full scale, -60 for silence.
 * @param {Float32Array} samples
 */
export function levelOf(samples) {
  let sum = 0;
  for (const sample of samples) sum += sample * sample;
  const rms = Math.sqrt(sum / Math.max(1, samples.length));
  return Math.max(QUIETEST_DB, Math.min(0, Math.round(20 * Math.log10(rms || 1e-9))));
}

/** The same as a share of the way from silence to full scale. */
export const shareOf = (level) => 1 - level / QUIETEST_DB;
