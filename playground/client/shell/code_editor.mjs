// A text editor with line numbers, a marked line and colours for Python.
import { el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { highlightLines } from "./python_highlighter.mjs";

const INDENT = "    ";
// Characters; longer texts are shown without colours.
const MAX_COLOURED_CHARS = 60_000;
const KEYS_HELP = tr("Esc, then Tab leaves the text; Tab alone indents.");

let serial = 0;

export class CodeEditor {
  // Whether the last key was Esc: then Tab moves the focus instead of indenting.
  #leaving = false;
  #line = 0;
  #python = false;

  /** @param {{ changed?: () => void, save?: () => void }} [acts] */
  constructor({ changed = () => {}, save = () => {} } = {}) {
    const id = `code-${++serial}`;
    this.area = el("textarea", {
      class: "ce-text",
      spellcheck: "false",
      autocapitalize: "off",
      autocomplete: "off",
      wrap: "off",
      "aria-describedby": `${id}-say ${id}-keys`,
    });
    this.numbers = el("pre", { class: "ce-numbers", "aria-hidden": "true" });
    this.behind = el("pre", { class: "ce-highlight", "aria-hidden": "true" });
    this.say = el("p", { class: "ce-say", id: `${id}-say`, role: "status" });
    this.keys = el("p", { class: "ce-keys", id: `${id}-keys` }, KEYS_HELP);
    const inside = el("div", { class: "ce-inside" }, this.behind, this.area);
    this.box = el("div", { class: "ce-box" }, this.numbers, inside);
    this.node = el("div", { class: "ce" }, this.box, this.say, this.keys);
    this.area.addEventListener("input", () => {
      this.mark(0);
      changed();
    });
    this.area.addEventListener("scroll", () => this.#syncScroll());
    this.area.addEventListener("keydown", (event) => this.#press(event, save));
    this.area.addEventListener("blur", () => {
      this.#leaving = false;
    });
  }

  /**
   * Show a file from its beginning.
   * @param {string} path of the file
   * @param {string} text
   * @param {boolean} changes whether it may be changed
   */
  show(path, text, changes) {
    this.#python = path.endsWith(".py");
    this.area.readOnly = !changes;
    this.area.setAttribute("aria-label", changes ? path : tr("{path}, to be read only", { path }));
    this.keys.hidden = !changes;
    this.area.value = text;
    const lines = text.split("\n").length;
    this.area.rows = Math.max(8, Math.min(26, lines + 1));
    this.area.setSelectionRange(0, 0);
    this.area.scrollTop = this.area.scrollLeft = 0;
    this.mark(0);
  }

  get text() {
    return this.area.value;
  }

  /**
   * Mark a line and show what is wrong with it; 0 marks none.
   * @param {number} line from 1
   * @param {string} [sentence]
   */
  mark(line, sentence = "") {
    this.#line = line;
    this.say.textContent = said(sentence);
    this.area.toggleAttribute("aria-invalid", sentence !== "");
    if (sentence) this.area.setAttribute("aria-invalid", "true");
    this.#draw();
  }

  /**
   * Selects a line and scrolls it into view.
   * @param {number} line
   */
  goTo(line) {
    const lines = this.text.split("\n");
    const before = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    const end = before + (lines[line - 1] ?? "").length;
    const indent = /^\s*/.exec(lines[line - 1] ?? "")?.[0].length ?? 0;
    this.area.focus({ preventScroll: true });
    this.area.setSelectionRange(before + indent, end);
    const height = this.area.scrollHeight / lines.length;
    this.area.scrollTop = Math.max(0, (line - 4) * height);
    this.area.scrollLeft = 0;
    this.box.scrollIntoView({ block: "nearest" });
  }

  #draw() {
    const { text } = this;
    /** @type {[string, string][][]} */
    const parts =
      this.#python && text.length <= MAX_COLOURED_CHARS ? highlightLines(text) : [[["", text]]];
    /** @type {[string, string][][]} */
    const lines = parts.length > 1 ? parts : text.split("\n").map((line) => [["", line]]);
    /** @param {number} i */
    const bad = (i) => (i + 1 === this.#line ? " bad" : "");
    this.numbers.replaceChildren(
      ...lines.map((_, i) => el("span", { class: `ce-line${bad(i)}` }, i + 1)),
    );
    this.behind.replaceChildren(
      ...lines.map((line, i) =>
        el(
          "span",
          { class: `ce-line${bad(i)}` },
          line.map(([kind, words]) => (kind ? el("span", { class: `ce-${kind}` }, words) : words)),
          "\n",
        ),
      ),
    );
    this.#syncScroll();
  }

  #syncScroll() {
    const { scrollTop, scrollLeft } = this.area;
    this.numbers.scrollTop = scrollTop;
    Object.assign(this.behind, { scrollTop, scrollLeft });
  }

  /**
   * @param {KeyboardEvent} event
   * @param {() => void} save
   */
  #press(event, save) {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s") {
      event.preventDefault();
      return save();
    }
    const leaving = this.#leaving;
    this.#leaving = event.key === "Escape";
    if (this.area.readOnly || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Tab" && !event.shiftKey && !leaving) this.#insert(event, INDENT);
    if (event.key === "Enter" && !event.isComposing) this.#insert(event, `\n${this.#indent()}`);
  }

  // The indent of a new line: that of the current one, one level more after a colon.
  #indent() {
    const before = this.text.slice(0, this.area.selectionStart).split("\n").at(-1) ?? "";
    const own = /^[ \t]*/.exec(before)?.[0] ?? "";
    return this.#python && before.trimEnd().endsWith(":") ? own + INDENT : own;
  }

  /**
   * execCommand keeps the browser's undo history; setRangeText does not.
   * @param {Event} event
   * @param {string} text
   */
  #insert(event, text) {
    event.preventDefault();
    if (document.execCommand("insertText", false, text)) return;
    const { selectionStart, selectionEnd } = this.area;
    this.area.setRangeText(text, selectionStart, selectionEnd, "end");
    this.area.dispatchEvent(new Event("input", { bubbles: true }));
  }
}
