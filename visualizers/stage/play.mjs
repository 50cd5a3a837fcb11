// Player of a recorded run: buttons, a slider, keys and a speed.
import { button, el } from "../shared/dom.mjs";
import { tr } from "../shared/tr.mjs";

const SPEEDS = [
  ["0.5×", 0.5],
  ["1×", 1],
  ["2×", 2],
  ["4×", 4],
  ["16×", 16],
];
const STEP_MS = 220;
const KEYS = tr("Player: space plays and pauses, arrow keys step, Home and End go to the ends");

const named = (text, name, act) => button(text, act, { "aria-label": name, title: name });

export class PlayBar {
  #at = 0;
  #total = 0;
  #timer = null;

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
    this.play = button(tr("▶ Play"), () => this.#toggle(), { class: "dp-btn pl-play" });
    this.speed = el(
      "select",
      { "aria-label": tr("Speed") },
      SPEEDS.map(([name, value]) => el("option", { value, selected: value === 1 }, name)),
    );
    this.node = el(
      "div",
      { class: "dp-scrub pl-bar", role: "group", tabindex: 0, "aria-label": KEYS },
      named("«", tr("To the start"), () => this.jump(0)),
      named("←", tr("One step back"), () => this.jump(this.#at - 1)),
      this.play,
      named("→", tr("One step on"), () => this.jump(this.#at + 1)),
      named("»", tr("To the end"), () => this.jump(this.#total)),
      this.range,
      this.label,
      this.speed,
    );
  }

  /** Load a run with `total` steps and show all of them. */
  load(total) {
    this.#pause();
    this.#total = total;
    this.range.max = String(total);
    this.#go(total);
  }

  /**
   * Disable the player while the visitor guesses tokens of
   * the run, because playing would show them.
   */
  hold(on) {
    this.#pause();
    this.node.inert = on;
  }

  #go(count) {
    this.#at = Math.max(0, Math.min(this.#total, count));
    this.show(this.#at);
    this.range.value = String(this.#at);
    this.label.textContent = tr("{n} of {total} steps", { n: this.#at, total: this.#total });
  }

  // A jump stops the playback.
  jump(count) {
    this.#pause();
    this.#go(count);
  }

  #pause() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.play.textContent = tr("▶ Play");
  }

  #tick() {
    if (this.#at >= this.#total) return this.#pause();
    this.#go(this.#at + 1);
    this.#timer = setTimeout(() => this.#tick(), STEP_MS / Number(this.speed.value));
  }

  #toggle() {
    if (this.#timer) return this.#pause();
    if (this.#at >= this.#total) this.#go(0);
    this.play.textContent = tr("❚❚ Pause");
    this.#timer = setTimeout(() => this.#tick(), 0);
  }

  // Handle a key of the player, unless a form field or the stage uses it.
  press(event) {
    const field = event.target.closest("select, textarea, input:not([type=range])");
    if (!this.#total || this.node.inert || field || event.target.closest(".dp-stage")) return;
    const places = {
      ArrowLeft: this.#at - 1,
      ArrowRight: this.#at + 1,
      Home: 0,
      End: this.#total,
    };
    if (event.key === " " && event.target.tagName !== "BUTTON") this.#toggle();
    else if (event.key in places) this.jump(places[event.key]);
    else return;
    event.preventDefault();
  }
}
