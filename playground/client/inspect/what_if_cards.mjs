// The processors of a step as cards. Each can be switched off, and moved by mouse or keyboard.
import { el } from "../../../visualizers/shared/dom.mjs";
import { processorTitle } from "../../../visualizers/shared/processors.mjs";
import { formatCount, formatFixed, formatPercent } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

const PROCESSORS = tr("Filters, in their order");

/**
 * A processor under the new settings. Its numbers are missing before the first answer.
 * @typedef {object} ProcessorStage
 * @property {string} name
 * @property {boolean} on
 * @property {number} [removed]
 * @property {number} [kept]
 * @property {number} [mass]
 * @property {number} [bits]
 */

/**
 * @param {unknown[]} a
 * @param {unknown[]} b
 */
const hasSameItems = (a, b) => a.length === b.length && a.every((name, i) => name === b[i]);

/** @param {ProcessorStage} stage */
function effectText({ on, removed, kept, mass = 0, bits = 0 }) {
  if (!on) return tr("off");
  if (kept === undefined) return "";
  const gone = removed
    ? tr("removes {n}, keeps {p}", { n: formatCount(removed), p: formatPercent(mass) })
    : tr("removes none");
  return tr("{gone} · {bits} bits", { gone, bits: formatFixed(bits) });
}

/**
 * The elements of a card.
 * @typedef {object} ProcessorCard
 * @property {HTMLElement} line
 * @property {HTMLInputElement} box
 * @property {HTMLElement} told
 * @property {HTMLButtonElement} up
 * @property {HTMLButtonElement} down
 */

/** The list of processor cards. */
export class ProcessorCards {
  /** @type {string[]} names in the user's order, empty while it is the original one */
  order = [];
  /** @type {Set<string>} */
  #off = new Set();
  /** @type {string[]} */
  #names = [];
  /** @type {string[]} the order before anything was moved */
  #own = [];
  /** @type {Map<string, ProcessorCard>} */
  #cards = new Map();
  #dragged = "";

  /** @param {() => void} touched */
  constructor(touched) {
    this.touched = touched;
    this.list = el("ol", { class: "wi-cards", "aria-label": PROCESSORS });
    this.empty = el("p", { class: "dp-note" }, tr("No filter acts at this step."));
    const title = el("h4", {}, PROCESSORS);
    this.said = el("span", { class: "dp-sr", role: "status" });
    this.node = el("div", { class: "wi-processors" }, title, this.empty, this.list, this.said);
  }

  reset() {
    this.order = [];
    this.#off.clear();
    this.#own = [];
    this.#names = [];
    this.#cards.clear();
    this.list.replaceChildren();
  }

  // The switched-off processors that this step has.
  get off() {
    return [...this.#off].filter((name) => this.#names.includes(name));
  }

  get moved() {
    return this.order.length > 0;
  }

  get changed() {
    return this.moved || this.off.length > 0;
  }

  /** @param {ProcessorStage[]} stages */
  show(stages) {
    this.#names = stages.map((s) => s.name);
    if (!this.moved) this.#own = this.#names;
    for (const stage of stages) {
      const card = this.#cards.get(stage.name) ?? this.#createCard(stage.name);
      this.#cards.set(stage.name, card);
      this.#fillCard(card, stage);
    }
    this.#arrangeCards();
  }

  /**
   * @param {ProcessorCard} card
   * @param {ProcessorStage} stage
   */
  #fillCard({ line, told: text, box }, stage) {
    line.classList.toggle("off", !stage.on);
    box.checked = stage.on;
    text.textContent = effectText(stage);
  }

  // Reorder the cards only if needed, and restore the focus: moving a node in the page loses it.
  #arrangeCards() {
    const focus = document.activeElement;
    const cards = this.#names.flatMap((name) => this.#cards.get(name) ?? []);
    const lines = cards.map((card) => card.line);
    if (!hasSameItems([...this.list.children], lines)) this.list.replaceChildren(...lines);
    if (focus instanceof HTMLElement && this.list.contains(focus)) focus.focus();
    for (const [i, { up, down }] of cards.entries()) {
      up.toggleAttribute("disabled", i === 0);
      down.toggleAttribute("disabled", i === this.#names.length - 1);
    }
    this.empty.hidden = lines.length > 0;
  }

  /** @param {string} name */
  #createCard(name) {
    const title = processorTitle(name);
    const box = el("input", { type: "checkbox", onchange: () => this.#toggleProcessor(name) });
    box.checked = true;
    const text = el("span", { class: "wi-effect" });
    /**
     * @param {string} sign
     * @param {string} label
     * @param {number} by
     */
    const move = (sign, label, by) => {
      const attrs = { type: "button", class: "wi-move", "aria-label": label, title: label };
      return el("button", { ...attrs, onclick: () => this.#moveBy(name, by) }, sign);
    };
    const up = move("↑", tr("Move {title} earlier", { title }), -1);
    const down = move("↓", tr("Move {title} later", { title }), 1);
    const grip = el("span", { class: "wi-grip", "aria-hidden": "true" }, "⠿");
    const label = el("label", {}, box, el("b", {}, title));
    const line = el("li", { draggable: "true" }, grip, label, up, down, text);
    line.addEventListener("dragstart", (event) => this.#startDrag(event, name));
    line.addEventListener("dragover", (event) => this.#dragOver(event, name));
    line.addEventListener("dragend", () => this.#endDrag());
    line.addEventListener("drop", (event) => event.preventDefault());
    return { line, box, told: text, up, down };
  }

  /** @param {string} name */
  #toggleProcessor(name) {
    if (this.#cards.get(name)?.box.checked) this.#off.delete(name);
    else this.#off.add(name);
    this.touched();
  }

  /**
   * @param {string} name
   * @param {number} by
   */
  #moveBy(name, by) {
    const at = this.#names.indexOf(name);
    const to = at + by;
    if (to < 0 || to >= this.#names.length) return;
    this.#moveTo(name, to);
    this.said.textContent = tr("{title} is number {n} of {total} now.", {
      title: processorTitle(name),
      n: to + 1,
      total: this.#names.length,
    });
    const card = this.#cards.get(name);
    if (card) {
      const [pressed, other] = by < 0 ? [card.up, card.down] : [card.down, card.up];
      (pressed.disabled ? other : pressed).focus();
    }
    this.touched();
  }

  /**
   * @param {string} name
   * @param {number} to
   */
  #moveTo(name, to) {
    const rest = this.#names.filter((n) => n !== name);
    rest.splice(to, 0, name);
    this.#names = rest;
    this.order = hasSameItems(rest, this.#own) ? [] : rest;
    this.#arrangeCards();
  }

  /**
   * @param {DragEvent} event
   * @param {string} name
   */
  #startDrag({ dataTransfer }, name) {
    this.#dragged = name;
    if (dataTransfer) {
      dataTransfer.effectAllowed = "move";
      dataTransfer.setData("text/plain", processorTitle(name));
    }
    this.#cards.get(name)?.line.classList.add("lifted");
  }

  /**
   * @param {DragEvent} event
   * @param {string} name
   */
  #dragOver(event, name) {
    if (!this.#dragged) return;
    event.preventDefault();
    if (name !== this.#dragged) this.#moveTo(this.#dragged, this.#names.indexOf(name));
  }

  #endDrag() {
    if (!this.#dragged) return;
    this.#cards.get(this.#dragged)?.line.classList.remove("lifted");
    this.#dragged = "";
    this.touched();
  }
}
