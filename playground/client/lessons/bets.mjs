// The questions of lesson cards: one kind of control each, with its answer and its marking.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import {
  formatSetting,
  formatWholePercent,
  makeVisible,
  quoteText,
} from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

/** @import { Tree } from "./markdown.mjs" */

/**
 * A bet, as the lesson's data has it.
 * @typedef {object} Bet
 * @property {string} kind token, truth, choice, number, order or text
 * @property {Tree[]} question
 * @property {string[]} options
 * @property {number} low
 * @property {number} high
 * @property {number} by
 * @property {number} tolerance
 * @property {string} unit
 */

/**
 * The solution of a bet.
 * @typedef {object} Key
 * @property {number[]} right places of options
 * @property {number | null} value of a number
 * @property {number[]} probabilities of the options, if they are tokens
 * @property {string} told in words
 */

/**
 * A question on the page.
 * @typedef {object} Asked
 * @property {HTMLElement} node
 * @property {() => any} answer returns the current bet, null for none
 * @property {(answer: any) => void} set shows a bet
 * @property {(key: Key) => void} mark shows the solution and locks the controls
 */

/** @type {Record<string, string>} */
const UNIT_SUFFIXES = {
  percent: "\u202f%",
  bits: tr(" bits"),
  tokens: tr(" tokens"),
  steps: tr(" steps"),
};

/**
 * Return the text that follows a number of a bet's unit.
 * @param {Pick<Bet, "unit">} bet
 */
export const unitSuffix = ({ unit }) => UNIT_SUFFIXES[unit] ?? "";
/** @type {Record<string, number>} */
const ARROW_MOVES = { ArrowUp: -1, ArrowDown: 1 };
let questionCount = 0;

/**
 * Create the controls of a bet.
 * @param {Bet} bet
 * @param {() => void} changed called when the answer changes
 * @returns {Asked}
 */
export const createQuestion = (bet, changed) => QUESTION_KINDS[bet.kind](bet, changed);

/**
 * Return whether an answer is right, null for free text and for no answer.
 * @param {Bet} bet
 * @param {Key} key
 * @param {any} answer
 * @returns {boolean | null}
 */
export function isRight(bet, key, answer) {
  if (bet.kind === "text" || answer === null) return null;
  if (bet.kind === "number")
    return Math.abs(answer - (key.value ?? 0)) <= bet.tolerance * (1 + 1e-9);
  if (bet.kind === "order") return key.right.every((place, i) => place === answer[i]);
  return answer === key.right[0];
}

/**
 * Return the texts of a bet's options as shown: tokens in quotes, with the space before them only
 * where it tells two of them apart.
 * @param {Bet} bet
 */
export function optionLabels({ kind, options }) {
  if (kind === "truth") return [tr("True"), tr("False")];
  if (kind !== "token") return options;
  const words = options.map((text) => text.trim());
  const isClear = words.every(Boolean) && new Set(words).size === words.length;
  return (isClear ? words : options).map((text) => quoteText(makeVisible(text)));
}

/**
 * Create one of several options. Native radio buttons work with arrow keys and screen readers.
 * @param {Bet} bet
 * @param {() => void} changed
 * @returns {Asked}
 */
function createChoice(bet, changed) {
  const name = `ls-bet-${++questionCount}`;
  const rows = optionLabels(bet).map((text, place) => {
    const input = el("input", { type: "radio", name, value: place, onchange: changed });
    const said = el("span", { class: "ls-mark" });
    return {
      input,
      said,
      node: el(
        "label",
        { class: "ls-option" },
        input,
        el("span", { class: "ls-text" }, text),
        said,
      ),
    };
  });
  const answer = () => {
    const place = rows.findIndex(({ input }) => input.checked);
    return place < 0 ? null : place;
  };
  return {
    node: el(
      "div",
      { class: "ls-options" },
      rows.map((row) => row.node),
    ),
    answer,
    set(place) {
      if (rows[place]) rows[place].input.checked = true;
    },
    mark({ right, probabilities }) {
      const own = answer();
      for (const [place, { input, node, said }] of rows.entries()) {
        input.disabled = true;
        const isRight = right.includes(place);
        node.classList.toggle("right", isRight);
        node.classList.toggle("wrong", place === own && !isRight);
        const words = [
          isRight ? tr("✓ right") : "",
          place === own ? tr("your bet") : "",
          probabilities[place] === undefined ? "" : formatWholePercent(probabilities[place]),
        ];
        said.textContent = words.filter(Boolean).join(" · ");
      }
    },
  };
}

/**
 * Create a number on a slider. A slider that was not touched is no bet.
 * @param {Bet} bet
 * @param {() => void} changed
 * @returns {Asked}
 */
function createSlider(bet, changed) {
  const { low, high, by } = bet;
  let touched = false;
  /** @param {number} value */
  const words = (value) => `${formatSetting(value)}${unitSuffix(bet)}`;
  const output = el("output", { class: "ls-number" }, "–");
  const range = el("input", {
    type: "range",
    min: low,
    max: high,
    step: by,
    value: (low + high) / 2,
    "aria-label": tr("Your bet"),
    oninput: () => take(),
    onchange: () => take(),
    onpointerup: () => take(),
  });
  const take = () => {
    touched = true;
    output.textContent = words(Number(range.value));
    changed();
  };
  const right = el("p", { class: "ls-mark", hidden: true });
  const marker = el("i", { class: "ls-marker", hidden: true });
  const ends = el(
    "p",
    { class: "ls-ends" },
    el("span", {}, words(low)),
    el("span", {}, words(high)),
  );
  return {
    node: el(
      "div",
      { class: "ls-slider" },
      el("div", { class: "ls-track" }, range, marker),
      ends,
      output,
      right,
    ),
    answer: () => (touched ? Number(range.value) : null),
    set(value) {
      range.value = String(value);
      take();
    },
    mark({ value, told }) {
      range.disabled = true;
      marker.hidden = false;
      marker.style.left = `${(100 * ((value ?? low) - low)) / (high - low)}%`;
      right.hidden = false;
      right.textContent = tr("Answer: {told}. Within {tolerance} counts.", {
        told: bet.unit === "percent" ? told : `${told}${unitSuffix(bet)}`,
        tolerance: words(bet.tolerance),
      });
    },
  };
}

// An order of options. Each row has two buttons, which also take the arrow keys.
class OrderQuestion {
  #touched = false;
  #changed;

  /**
   * @param {Bet} bet
   * @param {() => void} changed
   */
  constructor({ options }, changed) {
    this.#changed = changed;
    this.order = options.map((_, place) => place);
    this.list = el("ol", { class: "ls-order" });
    this.said = el("p", { class: "dp-sr", role: "status" });
    this.rows = options.map((text, place) => this.#createRow(text, place));
    const leave = () => this.#markTouched();
    this.keep = createButton(tr("I leave it as it is"), leave, { class: "dp-btn ls-keep-order" });
    this.node = el("div", {}, this.list, this.keep, this.said);
    this.#drawRows();
  }

  /**
   * @param {string} text
   * @param {number} place
   */
  #createRow(text, place) {
    /** @param {number} by */
    const act = (by) => () => this.#moveRow(place, by);
    /** @param {KeyboardEvent} event */
    const keys = (event) => {
      const by = ARROW_MOVES[event.key];
      if (!by) return;
      event.preventDefault();
      this.#moveRow(place, by);
    };
    /** @param {string} label */
    const named = (label) => ({ "aria-label": label, onkeydown: keys });
    const up = createButton("↑", act(-1), named(tr("Move up: {text}", { text })));
    const down = createButton("↓", act(1), named(tr("Move down: {text}", { text })));
    const mark = el("span", { class: "ls-mark" });
    const words = el("span", { class: "ls-text" }, text);
    return { text, up, down, mark, node: el("li", { class: "ls-option" }, words, mark, up, down) };
  }

  /**
   * @param {number} place
   * @param {number} by
   */
  #moveRow(place, by) {
    const at = this.order.indexOf(place);
    const to = at + by;
    if (to < 0 || to >= this.order.length) return;
    [this.order[at], this.order[to]] = [this.order[to], this.order[at]];
    this.#drawRows();
    const { text, up, down } = this.rows[place];
    (by < 0 ? up : down).focus();
    this.said.textContent = tr("{text}: place {place}", { text, place: to + 1 });
    this.#markTouched();
  }

  #markTouched() {
    this.#touched = true;
    this.#changed();
  }

  #drawRows() {
    this.list.replaceChildren(...this.order.map((place) => this.rows[place].node));
  }

  answer() {
    return this.#touched ? [...this.order] : null;
  }

  /** @param {number[]} given */
  set(given) {
    this.order = [...given];
    this.#touched = true;
    this.#drawRows();
  }

  /** @param {Key} key */
  mark({ right }) {
    this.keep.hidden = true;
    for (const [place, { up, down, mark, node }] of this.rows.entries()) {
      up.hidden = true;
      down.hidden = true;
      const own = right.indexOf(place);
      const fits = this.order[own] === place;
      node.classList.add(fits ? "right" : "wrong");
      mark.textContent = fits ? tr("✓ right") : tr("belongs to place {place}", { place: own + 1 });
    }
  }
}

/**
 * @param {Bet} bet
 * @param {() => void} changed
 * @returns {Asked}
 */
const createOrder = (bet, changed) => new OrderQuestion(bet, changed);

/**
 * @param {Bet} _bet
 * @param {() => void} changed
 * @returns {Asked}
 */
function createTextField(_bet, changed) {
  const area = el("textarea", {
    rows: 3,
    maxlength: 400,
    "aria-label": tr("Your answer"),
    oninput: changed,
  });
  return {
    node: el(
      "div",
      { class: "ls-free" },
      area,
      el("p", { class: "dp-note" }, tr("Nothing is marked here.")),
    ),
    answer: () => area.value.trim() || null,
    set(words) {
      area.value = words;
    },
    mark() {
      area.readOnly = true;
    },
  };
}

/** @type {Record<string, (bet: Bet, changed: () => void) => Asked>} */
const QUESTION_KINDS = {
  token: createChoice,
  truth: createChoice,
  choice: createChoice,
  number: createSlider,
  order: createOrder,
  text: createTextField,
};
