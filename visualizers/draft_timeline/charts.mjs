// Charts of speculative decoding: draft length by round, and acceptance by position in the draft.
import { el, scroller, set, svg } from "../shared/dom.mjs";
import { said } from "../shared/server_text.mjs";
import { counted, fixed, lengthOf } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

const BAR = 16;
const HIGH = 96;
const PLACES = 24;

/**
 * Height of one token in pixels.
 * @drawing
 */
const unitOf = (most) => HIGH / most;

export class Lengths {
  #bars = svg("g");
  // Bar -> its value. A new scale resizes the bars that exist already.
  #values = new Map();
  // Tokens per target pass after every round.
  #pace = [];
  #line = svg("polyline", { class: "dt-line" });
  #chart = svg("svg", { height: HIGH + 22, role: "img" }, this.#bars, this.#line);

  node = el(
    "figure",
    { class: "dt-fig" },
    el(
      "figcaption",
      {},
      tr(
        "Per round: asked (outline), drafted (light), accepted (solid); line: tokens per target pass so far",
      ),
    ),
    scroller(tr("Draft length over rounds"), this.#chart),
  );

  clear() {
    this.#bars.replaceChildren();
    this.#values.clear();
    this.#pace = [];
    this.#line.setAttribute("points", "");
  }

  /**
   * @param {Step} step
   * @param {any} shown summary of the step
   * @param {() => void} choose
   */
  add(step, shown, choose) {
    const { requested_length, tokens, length_reason } = step.detail;
    const values = [
      ["asked", requested_length],
      ["drafted", tokens.length],
      ["kept", shown.accepted],
    ];
    const number = this.#pace.push(shown.pace);
    const x = (number - 1) * BAR + 2;
    const group = svg(
      "g",
      { class: "dt-bar", onclick: choose },
      svg("title", {}, tr("Round {number}: {reason}", { number, reason: said(length_reason) })),
    );
    for (const [name, value] of values) {
      const rect = svg("rect", { class: name, x, width: BAR - 4 });
      this.#values.set(rect, value);
      group.append(rect);
    }
    this.#bars.append(group);
  }

  scale({ most, figures }) {
    const unit = unitOf(most);
    for (const [rect, value] of this.#values) {
      const height = value * unit;
      set(rect, { y: 8 + HIGH - height, height });
    }
    const points = this.#pace.map((v, i) => `${i * BAR + BAR / 2},${8 + HIGH - v * unit}`);
    this.#line.setAttribute("points", points.join(" "));
    const width = Math.max(120, figures.rounds * BAR + 4);
    const pace = fixed(figures.tokens_per_target_pass, 2);
    const label = counted(
      figures.rounds,
      tr("1 round, {pace} tokens per target pass", { pace }),
      tr("{n} rounds, {pace} tokens per target pass", { pace }),
    );
    set(this.#chart, { width, "aria-label": label });
  }
}

/**
 * Format a share as whole percent.
 * @drawing
 */
const shareOf = (part) => `${Math.round(100 * part)} %`;

function placeOf([accepted, judged, part], i) {
  const place = i + 1;
  return el(
    "span",
    {
      class: "dt-place",
      title: counted(
        judged,
        tr("Place {place}: {accepted} of 1 judged token accepted", { place, accepted }),
        tr("Place {place}: {accepted} of {n} judged tokens accepted", { place, accepted }),
      ),
    },
    el("span", { class: "v" }, shareOf(part)),
    el("span", { class: "b" }, el("i", { style: { height: lengthOf(part) } })),
    el("span", { class: "n" }, String(place)),
  );
}

export const placesOf = ({ places }) => [
  el("figcaption", {}, tr("Accepted, by place in the draft")),
  el("div", { class: "dt-places" }, places.slice(0, PLACES).map(placeOf)),
];
