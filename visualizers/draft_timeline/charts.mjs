// Charts of speculative decoding: draft length by round, and acceptance by position in the draft.
import { createScroller, el, setAttributes, svg } from "../shared/dom.mjs";
import { said } from "../shared/server_text.mjs";
import { formatFixed, pluralText, toCssLength } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";

/** @import { DraftSummary } from "../shared/summaries.d.ts" */

const BAR_WIDTH = 16;
const CHART_HEIGHT = 96;
const MAX_PLACES = 24;

/**
 * Height of one token in pixels.
 * @drawing
 * @param {number} most
 */
const tokenHeight = (most) => CHART_HEIGHT / most;

export class LengthChart {
  #bars = svg("g");
  // Bar -> its value. A new scale resizes the bars that exist already.
  /** @type {Map<SVGRectElement, number>} */
  #values = new Map();
  // Tokens per target pass after every round.
  /** @type {number[]} */
  #tokensPerPass = [];
  #line = svg("polyline", { class: "dt-line" });
  #chart = svg("svg", { height: CHART_HEIGHT + 22, role: "img" }, this.#bars, this.#line);

  node = el(
    "figure",
    { class: "dt-fig" },
    el(
      "figcaption",
      {},
      tr(
        "Tokens per round: requested (outline), drafted (light), accepted (solid), running average per pass (line)",
      ),
    ),
    createScroller(tr("Draft length over rounds"), this.#chart),
  );

  clear() {
    this.#bars.replaceChildren();
    this.#values.clear();
    this.#tokensPerPass = [];
    this.#line.setAttribute("points", "");
  }

  /**
   * @param {Step} step
   * @param {DraftSummary} shown
   * @param {() => void} choose
   */
  add(step, shown, choose) {
    const { requested_length, draft_length, length_reason } = step.detail;
    const values = [
      ["asked", requested_length],
      ["drafted", draft_length],
      ["kept", shown.accepted],
    ];
    const number = this.#tokensPerPass.push(shown.pace);
    const x = (number - 1) * BAR_WIDTH + 2;
    const group = svg(
      "g",
      { class: "dt-bar", onclick: choose },
      svg("title", {}, tr("Round {number}: {reason}", { number, reason: said(length_reason) })),
    );
    for (const [name, value] of values) {
      const rect = svg("rect", { class: name, x, width: BAR_WIDTH - 4 });
      this.#values.set(rect, value);
      group.append(rect);
    }
    this.#bars.append(group);
  }

  /** @param {DraftSummary} shown */
  scale({ most, figures }) {
    const unit = tokenHeight(most);
    for (const [rect, value] of this.#values) {
      const height = value * unit;
      setAttributes(rect, { y: 8 + CHART_HEIGHT - height, height });
    }
    const points = this.#tokensPerPass.map(
      (v, i) => `${i * BAR_WIDTH + BAR_WIDTH / 2},${8 + CHART_HEIGHT - v * unit}`,
    );
    this.#line.setAttribute("points", points.join(" "));
    const width = Math.max(120, figures.rounds * BAR_WIDTH + 4);
    const pace = formatFixed(figures.tokens_per_target_pass, 2);
    const label = pluralText(
      figures.rounds,
      tr("1 round, {pace} tokens per pass of the main model", { pace }),
      tr("{n} rounds, {pace} tokens per pass of the main model", { pace }),
    );
    setAttributes(this.#chart, { width, "aria-label": label });
  }
}

/**
 * Format a share as whole percent.
 * @drawing
 * @param {number} part
 */
const formatShare = (part) => `${Math.round(100 * part)} %`;

/**
 * @param {[number, number, number]} place
 * @param {number} i
 */
function createPlace([accepted, judged, part], i) {
  const place = i + 1;
  return el(
    "span",
    {
      class: "dt-place",
      title: pluralText(
        judged,
        tr("Place {place}: {accepted} of 1 judged token accepted", { place, accepted }),
        tr("Place {place}: {accepted} of {n} judged tokens accepted", { place, accepted }),
      ),
    },
    el("span", { class: "v" }, formatShare(part)),
    el("span", { class: "b" }, el("i", { style: { height: toCssLength(part) } })),
    el("span", { class: "n" }, String(place)),
  );
}

/** @param {DraftSummary} shown */
export const createPlaces = ({ places }) => [
  el("figcaption", {}, tr("Accepted, by place in the draft")),
  el("div", { class: "dt-places" }, places.slice(0, MAX_PLACES).map(createPlace)),
];
