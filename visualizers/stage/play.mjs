// Player of a recorded run: buttons, a slider, keys and a speed.
import { createButton, el } from "../shared/dom.mjs";
import { tr } from "../shared/tr.mjs";

const SPEEDS = [
  ["0.5×", 0.5],
  ["1×", 1],
  ["2×", 2],
  ["4×", 4],
  ["16×", 16],
];
const STEP_MS = 220;
const KEYS_HELP = tr(
  "Player: space plays and pauses, arrow keys step, Home and End go to the ends",
);

/**
 * @param {string} text
 * @param {string} name
 * @param {() => void} act
 */
const createIconButton = (text, name, act) =>
  createButton(text, act, { "aria-label": name, title: name });

export class PlayBar {
  #shown = 0;
  #total = 0;
  #timer = 0;

  /** @param {(count: number) => void} show called with the number of steps to show */
  constructor(show) {
    this.show = show;
    this.range = el("input", {
      type: "range",
      min: 0,
      value: 0,
      "aria-label": tr("Steps shown"),
      oninput: () => this.jump(+this.range.value),
    });
    this.label = el("output", {});
    this.play = createButton(tr("▶ Play"), () => this.#togglePlay(), { class: "dp-btn pl-play" });
    this.speed = el(
      "select",
      { "aria-label": tr("Speed") },
      SPEEDS.map(([name, value]) => el("option", { value, selected: value === 1 }, name)),
    );
    this.node = el(
      "div",
      { class: "dp-scrub pl-bar", role: "group", tabindex: 0, "aria-label": KEYS_HELP },
      createIconButton("«", tr("To the start"), () => this.jump(0)),
      createIconButton("←", tr("One step back"), () => this.jump(this.#shown - 1)),
      this.play,
      createIconButton("→", tr("One step on"), () => this.jump(this.#shown + 1)),
      createIconButton("»", tr("To the end"), () => this.jump(this.#total)),
      this.range,
      this.label,
      this.speed,
    );
  }

  /**
   * Load a run with `total` steps and show all of them.
   * @param {number} total
   */
  load(total) {
    this.#pausePlay();
    this.#total = total;
    this.range.max = String(total);
    this.#showSteps(total);
  }

  /**
   * Disable the player while the visitor guesses tokens of
   * the run, because playing would show them.
   * @param {boolean} on
   */
  hold(on) {
    this.#pausePlay();
    this.node.inert = on;
  }

  /** @param {number} count */
  #showSteps(count) {
    this.#shown = Math.max(0, Math.min(this.#total, count));
    this.show(this.#shown);
    this.range.value = String(this.#shown);
    this.label.textContent = tr("{n} of {total} steps", { n: this.#shown, total: this.#total });
  }

  /**
   * A jump stops the playback.
   * @param {number} count
   */
  jump(count) {
    this.#pausePlay();
    this.#showSteps(count);
  }

  #pausePlay() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.play.textContent = tr("▶ Play");
  }

  #playStep() {
    if (this.#shown >= this.#total) return this.#pausePlay();
    this.#showSteps(this.#shown + 1);
    this.#timer = setTimeout(() => this.#playStep(), STEP_MS / Number(this.speed.value));
  }

  #togglePlay() {
    if (this.#timer) return this.#pausePlay();
    if (this.#shown >= this.#total) this.#showSteps(0);
    this.play.textContent = tr("❚❚ Pause");
    this.#timer = setTimeout(() => this.#playStep(), 0);
  }

  /**
   * Handle a key of the player, unless a form field or the stage uses it.
   * @param {KeyboardEvent} event
   */
  press(event) {
    const target = event.target instanceof Element ? event.target : document.body;
    const field = target.closest("select, textarea, input:not([type=range])");
    if (!this.#total || this.node.inert || field || target.closest(".dp-stage")) return;
    /** @type {Record<string, number>} */
    const places = {
      ArrowLeft: this.#shown - 1,
      ArrowRight: this.#shown + 1,
      Home: 0,
      End: this.#total,
    };
    if (event.key === " " && target.tagName !== "BUTTON") this.#togglePlay();
    else if (event.key in places) this.jump(places[event.key]);
    else return;
    event.preventDefault();
  }
}
