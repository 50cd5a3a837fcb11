// The waveform of a sound as a small drawing.
import { svg } from "../shared/dom.mjs";
import { formatFixed } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

const WIDTH = 200;
const HEIGHT = 40;
const MIN_PEAK = 0.02;

/**
 * One bar for each part of a sound, as high as its loudest sample.
 * @drawing
 * @param {readonly number[]} peaks largest sample of each of the equal parts, from 0 to 1
 * @param {number | null} seconds
 */
export function drawPeaks(peaks, seconds) {
  const wide = WIDTH / peaks.length;
  const bars = peaks.map((peak, i) => {
    const height = Math.max(MIN_PEAK, peak) * HEIGHT;
    const place = { x: i * wide, y: (HEIGHT - height) / 2, width: wide * 0.7, height };
    return svg("rect", place);
  });
  const label = tr("The loudness of {seconds} seconds of sound", {
    seconds: formatFixed(seconds ?? 0, 1),
  });
  const box = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "md-peaks", preserveAspectRatio: "none" };
  return svg("svg", { ...box, role: "img", "aria-label": label }, bars);
}
