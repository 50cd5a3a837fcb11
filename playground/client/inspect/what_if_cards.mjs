// The processors of a step as cards. Each can be switched off, and moved by mouse or keyboard.
import { el } from "../../../visualizers/shared/dom.mjs";
import { processorTitle } from "../../../visualizers/shared/processors.mjs";
import { formatPercent } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

const PROCESSORS = tr("Processors, in their order");

const hasSameItems = (a, b) => a.length === b.length && a.every((name, i) => name === b[i]);

function effectText({ on, removed, kept, mass, bits }) {
  if (!on) return tr("off");
  if (kept === undefined) return "";
  const gone = removed
    ? tr("removes {n}, keeps {p}", { n: removed.toLocaleString("en"), p: formatPercent(mass) })
    : tr("removes none");
  return tr("{gone} · {bits} bits", { gone, bits: bits.toFixed(2) });
}

/** The list of processor cards. */
export class ProcessorCards {
  /** Names in the user's order, empty while it is the original one. */
  order = [];
  #off = new Set();
  #names = [];
  /** The order before anything was moved. */
  #own = [];
  #cards = new Map();
  #dragged = "";

  /** @param {() => void} touched */
  constructor(touched) {
    this.touched = touched;
    this.list = el("ol", { class: "wi-cards", "aria-label": PROCESSORS });
    this.empty = el("p", { class: "dp-note" }, tr("No processor acts at this step."));
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

  show(stages) {
    this.#names = stages.map((s) => s.name);
    if (!this.moved) this.#own = this.#names;
    for (const stage of stages) {
      if (!this.#cards.has(stage.name)) this.#cards.set(stage.name, this.#createCard(stage.name));
      this.#fillCard(stage);
    }
    this.#arrangeCards();
  }

  #fillCard(stage) {
    const { line, told: text, box } = this.#cards.get(stage.name);
    line.classList.toggle("off", !stage.on);
    box.checked = stage.on;
    text.textContent = effectText(stage);
  }

  // Reorder the cards only if needed, and restore the focus: moving a node in the page loses it.
  #arrangeCards() {
    const focus = document.activeElement;
    const lines = this.#names.map((name) => this.#cards.get(name).line);
    if (!hasSameItems([...this.list.children], lines)) this.list.replaceChildren(...lines);
    if (focus instanceof HTMLElement && this.list.contains(focus)) focus.focus();
    for (const [i, name] of this.#names.entries()) {
      const { up, down } = this.#cards.get(name);
      up.toggleAttribute("disabled", i === 0);
      down.toggleAttribute("disabled", i === this.#names.length - 1);
    }
    this.empty.hidden = lines.length > 0;
  }

  #createCard(name) {
    const title = processorTitle(name);
    const box = el("input", { type: "checkbox", onchange: () => this.#toggleProcessor(name) });
    box.checked = true;
    const text = el("span", { class: "wi-effect" });
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

  #toggleProcessor(name) {
    if (this.#cards.get(name).box.checked) this.#off.delete(name);
    else this.#off.add(name);
    this.touched();
  }

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
    const { up, down } = this.#cards.get(name);
    const pressed = by < 0 ? up : down;
    (pressed.disabled ? (by < 0 ? down : up) : pressed).focus();
    this.touched();
  }

  #moveTo(name, to) {
    const rest = this.#names.filter((n) => n !== name);
    rest.splice(to, 0, name);
    this.#names = rest;
    this.order = hasSameItems(rest, this.#own) ? [] : rest;
    this.#arrangeCards();
  }

  #startDrag(event, name) {
    this.#dragged = name;
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", processorTitle(name));
    this.#cards.get(name).line.classList.add("lifted");
  }

  #dragOver(event, name) {
    if (!this.#dragged) return;
    event.preventDefault();
    if (name !== this.#dragged) this.#moveTo(this.#dragged, this.#names.indexOf(name));
  }

  #endDrag() {
    if (!this.#dragged) return;
    this.#cards.get(this.#dragged).line.classList.remove("lifted");
    this.#dragged = "";
    this.touched();
  }
}
