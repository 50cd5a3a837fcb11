// A field for a picture or a sound: a file, an example, or a recording made on the page.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { getDeclaration } from "../shell/spec.mjs";
import {
  exampleId,
  findMedia,
  listExamples,
  MediaError,
  sendMedia,
} from "../shell/visitor_media.mjs";

/** @import { Kind } from "../shell/visitor_media.mjs" */

const SENDING = tr("Sending…");
const SENDING_THEN_RUN = tr("Sending… The run begins as soon as it is there.");
const NOT_HERE = tr("What this run was given is known by its hash alone here.");

/** @param {HTMLElement} node */
const isVisible = (node) => node.isConnected && node.getClientRects().length > 0;

/**
 * The texts of a kind of field.
 * @typedef {object} Words
 * @property {string} title
 * @property {string} hint
 * @property {string} remove
 * @property {string} removed
 * @property {string} needed
 * @property {string} examples
 */

export class MediaField {
  input = el("input", { type: "file", class: "dp-sr" });
  // Name of the media in a form, empty for none.
  #name = "";
  // Number of the latest upload; results of earlier ones are dropped.
  #number = 0;
  // The running upload, resolves to whether it succeeded; null if none is running.
  /** @type {Promise<boolean> | null} */
  #upload = null;
  #changed;

  /**
   * @param {Kind} kind
   * @param {string} id
   * @param {Words} words
   * @param {() => void} changed
   */
  constructor(kind, id, words, changed) {
    /** @type {Kind} */
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

  /** @param {string} id */
  #chooser(id) {
    const { types } = getDeclaration().media.limits[this.kind];
    Object.assign(this.input, { id: `${id}-file`, accept: types.join(",") });
    const label = tr("{title}: choose a file", { title: this.words.title });
    this.input.setAttribute("aria-label", label);
    this.input.addEventListener("change", () => {
      const [file] = this.input.files ?? [];
      if (file) this.take(file);
      this.input.value = "";
    });
    // The file input's value is not a setting, so the form must not see its event.
    this.input.addEventListener("input", (event) => event.stopPropagation());
    return el("label", { class: "dp-btn md-choose" }, tr("Choose a file"), this.input);
  }

  #examples() {
    const rows = listExamples(this.kind).map((example) => {
      const pick = this.exampleButton(example);
      pick.addEventListener("click", () => {
        this.stop();
        this.value = exampleId(example.name);
        this.#showStatus("");
        this.#notifyChange();
      });
      return { name: exampleId(example.name), pick };
    });
    const items = rows.map(({ pick }) => el("li", {}, pick));
    const label = el("p", { class: "f-help" }, this.words.examples);
    const box = el("div", { class: "md-examples" }, label, el("ul", {}, items));
    box.hidden = !rows.length;
    return { rows, box };
  }

  /**
   * Make the button of an example; subclasses add a preview.
   * @param {any} example
   * @returns {HTMLElement}
   */
  exampleButton({ title }) {
    return createButton(title, () => {}, { class: "dp-btn md-example", "aria-pressed": "false" });
  }

  #listen() {
    const { zone } = this;
    /** @param {boolean} on */
    const over = (on) => zone.classList.toggle("over", on);
    zone.addEventListener("dragover", (event) => {
      event.preventDefault();
      over(true);
    });
    zone.addEventListener("dragleave", () => over(false));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      over(false);
      const [file] = event.dataTransfer?.files ?? [];
      if (file) this.take(file);
    });
    document.addEventListener("paste", (event) => {
      if (!isVisible(this.box)) return;
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
   * Upload a file and show it. On an error show a sentence and keep the previous media.
   * @param {Blob} blob
   */
  async take(blob) {
    this.stop();
    const number = ++this.#number;
    this.#showStatus(SENDING);
    this.#upload = this.#send(blob, number);
    try {
      await this.#upload;
    } finally {
      if (number === this.#number) this.#upload = null;
    }
  }

  /**
   * @param {Blob} blob
   * @param {number} number
   */
  async #send(blob, number) {
    try {
      const { given } = await sendMedia(this.kind, blob);
      if (number !== this.#number) return true;
      this.#showStatus("");
      this.#setName(given);
      this.#notifyChange();
      return true;
    } catch (error) {
      if (number !== this.#number) return true;
      if (!(error instanceof MediaError)) throw error;
      this.wrong(error.message);
      return false;
    }
  }

  #notifyChange() {
    this.#changed();
    this.box.dispatchEvent(new Event("input", { bubbles: true }));
  }

  /**
   * Show an error sentence.
   * @param {string} sentence
   */
  wrong(sentence) {
    this.#showStatus(sentence, true);
  }

  /** Clear the error and stop a camera or recording, before something else begins. */
  begin() {
    this.stop();
    this.#showStatus("");
  }

  /** @param {string} sentence */
  #showStatus(sentence, bad = false) {
    this.say.textContent = sentence;
    this.say.classList.toggle("bad", bad);
    this.say.setAttribute("role", bad ? "alert" : "status");
  }

  // Removes a live camera or recording; subclasses also release the device.
  stop() {
    this.live.replaceChildren();
  }

  /**
   * Show whether the model needs this input.
   * @param {boolean} on
   */
  markNeeded(on) {
    this.mark.textContent = on ? tr("needed") : tr("optional");
  }

  get isUploading() {
    return this.#upload !== null;
  }

  /** Wait for the running upload; false if it failed, and the error is already shown. */
  async finishUpload() {
    let came = true;
    while (this.#upload) {
      this.#showStatus(SENDING_THEN_RUN);
      came = await this.#upload;
    }
    return came;
  }

  /** Whether the field has media; if not, show that it is needed and focus the field. */
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
    // Drop the result of a running upload.
    this.#number++;
    this.#upload = null;
    this.#setName(name);
  }

  /** @param {string} name */
  #setName(name) {
    this.#name = name || "";
    this.#draw();
  }

  /**
   * Show the media with a name, and clear the status of the previous one.
   * @param {string} name
   */
  show(name) {
    this.stop();
    this.#showStatus("");
    this.value = name;
  }

  #draw() {
    const name = this.#name;
    for (const { name: own, pick } of this.examples.rows)
      pick.setAttribute("aria-pressed", String(own === name));
    const given = name ? findMedia(this.kind, name) : null;
    this.hint.hidden = name !== "";
    this.box.classList.toggle("md-full", name !== "");
    if (!name) return this.shown.replaceChildren();
    const drop = () => {
      this.show("");
      this.#showStatus(this.words.removed);
      this.input.focus();
      this.#notifyChange();
    };
    const remove = createButton("✕", drop, {
      class: "dp-btn md-remove",
      "aria-label": this.words.remove,
      title: this.words.remove,
    });
    const figure = given ? this.figure(given) : el("p", { class: "f-help" }, NOT_HERE);
    this.shown.replaceChildren(figure, remove);
  }

  /**
   * Draw the media; subclasses show the picture or a player.
   * @param {import("../shell/visitor_media.mjs").Given} given
   * @returns {HTMLElement}
   */
  figure(given) {
    return el("p", {}, given.given);
  }
}
