// One thing that a model is given to see or to hear: a file, an example, or what is made on the spot.
import { button, el } from "../../visualizers/shared/dom.mjs";
import { tr } from "../../visualizers/shared/tr.mjs";
import { exampleNamed, examplesOf, known, Refused, send } from "./given_media.mjs";
import { declared } from "./spec.mjs";

const SENDING = tr("Sending…");
const THEN_RUN = tr("Sending… The run begins as soon as it is there.");
const ELSEWHERE = tr("What this run was given is known by its hash alone here.");

const inSight = (node) => node.isConnected && node.getClientRects().length > 0;

/**
 * What a kind of field says and does.
 * @typedef {object} Words
 * @property {string} title
 * @property {string} hint
 * @property {string} remove
 * @property {string} removed
 * @property {string} needed
 * @property {string} examples
 */

export class MediaField {
  // What a form calls it, empty for none.
  #name = "";
  // Of the file that is sent; what comes of an earlier one is dropped.
  #number = 0;
  // What is on its way says whether it came to be given; null where nothing is.
  /** @type {Promise<boolean> | null} */
  #coming = null;
  #changed;

  /**
   * @param {import("./given_media.mjs").Kind} kind
   * @param {string} id
   * @param {Words} words
   * @param {() => void} changed
   */
  constructor(kind, id, words, changed) {
    /** @type {import("./given_media.mjs").Kind} */
    this.kind = kind;
    /** @type {Words} */
    this.words = words;
    this.#changed = changed;
    const title = `${id}-title`;
    this.mark = el("span", { class: "f-default" });
    this.say = el("p", { class: "md-say", role: "status" });
    this.shown = el("div", { class: "md-shown" });
    this.live = el("div", { class: "md-live" });
    this.acts = el("div", { class: "md-acts" }, this.#chooser(id));
    this.hint = el("p", { class: "f-help md-hint" }, words.hint);
    this.zone = el("div", { class: "md-zone" }, this.shown, this.live, this.hint, this.acts);
    this.examples = this.#examples();
    this.box = el(
      "div",
      { class: "f-field md-field", id, role: "group", "aria-labelledby": title },
      el("div", { class: "f-name" }, el("b", { id: title }, words.title), this.mark),
      this.zone,
      this.say,
      this.examples.box,
    );
    this.#listen();
    this.#draw();
  }

  #chooser(id) {
    const { types } = declared().media.limits[this.kind];
    this.input = el("input", {
      type: "file",
      id: `${id}-file`,
      accept: types.join(","),
      class: "dp-sr",
      "aria-label": tr("{title}: choose a file", { title: this.words.title }),
    });
    this.input.addEventListener("change", () => {
      const [file] = this.input.files;
      if (file) this.take(file);
      this.input.value = "";
    });
    // Its own value is no setting of the form.
    this.input.addEventListener("input", (event) => event.stopPropagation());
    return el("label", { class: "dp-btn md-choose" }, tr("Choose a file"), this.input);
  }

  #examples() {
    const rows = examplesOf(this.kind).map((example) => {
      const pick = this.exampleButton(example);
      pick.addEventListener("click", () => {
        this.stop();
        this.value = exampleNamed(example.name);
        this.#tell("");
        this.#moved();
      });
      return { name: exampleNamed(example.name), pick };
    });
    const items = rows.map(({ pick }) => el("li", {}, pick));
    const label = el("p", { class: "f-help" }, this.words.examples);
    const box = el("div", { class: "md-examples" }, label, el("ul", {}, items));
    box.hidden = !rows.length;
    return { rows, box };
  }

  /**
   * @param {any} example
   * @returns {HTMLElement}
   */
  exampleButton({ title }) {
    return button(title, () => {}, { class: "dp-btn md-example", "aria-pressed": "false" });
  }

  #listen() {
    const { zone } = this;
    const over = (on) => zone.classList.toggle("over", on);
    zone.addEventListener("dragover", (event) => {
      event.preventDefault();
      over(true);
    });
    zone.addEventListener("dragleave", () => over(false));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      over(false);
      const [file] = event.dataTransfer.files;
      if (file) this.take(file);
    });
    document.addEventListener("paste", (event) => {
      if (!inSight(this.box)) return;
      const file = [...(event.clipboardData?.files ?? [])].find((f) => this.fits(f));
      if (!file) return;
      event.preventDefault();
      this.take(file);
    });
  }

  /** @param {Blob} file */
  fits({ type }) {
    return type.startsWith(`${this.kind}/`);
  }

  /**
   * Send a file and show it; what is wrong with it is said, and what was there stays.
   * @param {Blob} blob
   */
  async take(blob) {
    this.stop();
    const number = ++this.#number;
    this.#tell(SENDING);
    this.#coming = this.#send(blob, number);
    try {
      await this.#coming;
    } finally {
      if (number === this.#number) this.#coming = null;
    }
  }

  async #send(blob, number) {
    try {
      const { given } = await send(this.kind, blob);
      if (number !== this.#number) return true;
      this.#tell("");
      this.#give(given);
      this.#moved();
      return true;
    } catch (error) {
      if (number !== this.#number) return true;
      if (!(error instanceof Refused)) throw error;
      this.wrong(error.message);
      return false;
    }
  }

  #moved() {
    this.#changed();
    this.box.dispatchEvent(new Event("input", { bubbles: true }));
  }

  /** Say in one sentence what is wrong. */
  wrong(sentence) {
    this.#tell(sentence, true);
  }

  /** Something else begins: what was wrong before is said no more. */
  begin() {
    this.stop();
    this.#tell("");
  }

  #tell(sentence, bad = false) {
    this.say.textContent = sentence;
    this.say.classList.toggle("bad", bad);
    this.say.setAttribute("role", bad ? "alert" : "status");
  }

  // What goes on in it, a camera or a recording, goes on no more.
  stop() {
    this.live.replaceChildren();
  }

  /** @param {boolean} on whether the model cannot do without */
  needed(on) {
    this.mark.textContent = on ? tr("needed") : tr("optional");
  }

  get coming() {
    return this.#coming !== null;
  }

  /** Wait for what is on its way; false where it was refused, which has been said. */
  async arrived() {
    let came = true;
    while (this.#coming) {
      this.#tell(THEN_RUN);
      came = await this.#coming;
    }
    return came;
  }

  /** Whether it is there; where it is not and has to be, that is said, and the field has the focus. */
  check() {
    if (this.value) return true;
    this.wrong(this.words.needed);
    const first = this.examples.rows[0]?.pick ?? this.input;
    first.focus();
    this.box.scrollIntoView({ block: "nearest" });
    return false;
  }

  get value() {
    return this.#name;
  }

  set value(name) {
    // A file that is still on its way comes too late.
    this.#number++;
    this.#coming = null;
    this.#give(name);
  }

  #give(name) {
    this.#name = name || "";
    this.#draw();
  }

  /** Show what a form names; what was said of another is said no more. */
  show(name) {
    this.stop();
    this.#tell("");
    this.value = name;
  }

  #draw() {
    const name = this.#name;
    for (const { name: own, pick } of this.examples.rows)
      pick.setAttribute("aria-pressed", String(own === name));
    const given = name ? known(this.kind, name) : null;
    this.hint.hidden = name !== "";
    this.box.classList.toggle("md-full", name !== "");
    if (!name) return this.shown.replaceChildren();
    const drop = () => {
      this.show("");
      this.#tell(this.words.removed);
      this.input.focus();
      this.#moved();
    };
    const remove = button("✕", drop, {
      class: "dp-btn md-remove",
      "aria-label": this.words.remove,
      title: this.words.remove,
    });
    const figure = given ? this.figure(given) : el("p", { class: "f-help" }, ELSEWHERE);
    this.shown.replaceChildren(figure, remove);
  }

  /**
   * @param {import("./given_media.mjs").Given} given
   * @returns {HTMLElement}
   */
  figure(given) {
    return el("p", {}, given.given);
  }
}
