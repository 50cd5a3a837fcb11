// The fields for what a model is given besides text; a model that reads text alone has none.
import { el } from "../../visualizers/shared/dom.mjs";
import { KINDS, notPartOf } from "./given_media.mjs";
import { PictureField } from "./picture_field.mjs";
import { SoundField } from "./sound_field.mjs";
import { SpeechFields } from "./speech_fields.mjs";
import { isKnown, lookInto, takesOf } from "./takes.mjs";

const FIELDS = { image: PictureField, audio: SoundField };

export class MediaFields {
  // One that no model has asked for yet is not there.
  /** @type {Map<string, PictureField | SoundField>} */
  #fields = new Map();
  // What a form has said of kinds whose field is not there.
  #said = {};
  /** @type {string[]} */
  #takes = [];
  /** @type {string | null} */
  #needs = null;
  #id;
  #changed;
  // Whoever presses again while something is on its way has pressed already.
  #waits = false;

  /**
   * @param {string} id what the elements' ids begin with
   * @param {() => void} [changed]
   */
  constructor(id, changed = () => {}) {
    this.#id = id;
    this.#changed = changed;
    this.speech = new SpeechFields(id);
    this.box = el("div", { class: "md-fields" }, this.speech.box);
    this.box.hidden = true;
    // What is done when it is known what a model takes of which a form alone had said so.
    this.learned = () => {};
  }

  /** Whether the model takes anything besides text. */
  get any() {
    return this.#takes.length > 0;
  }

  /**
   * Other models are chosen: each of their fields is there, and what was given stays.
   * @param {string[]} models
   */
  follow(models) {
    const each = models.map(takesOf);
    // A run that was given something says that its model takes it.
    const open = models.some((model) => !isKnown(model));
    const takes = KINDS.filter(
      (kind) => each.some((one) => one.takes.includes(kind)) || (open && this.#said[kind]),
    );
    this.#takes = takes;
    this.#needs = each.find((one) => one.needs)?.needs ?? null;
    this.box.hidden = !takes.length;
    for (const kind of KINDS) this.#offer(kind, takes.includes(kind), this.#needs === kind);
    const told = each.flatMap((one) => one.speech ?? []);
    this.speech.follow(told, open && takes.includes("audio"));
    const windows = told.flatMap((one) => one.seconds ?? []);
    const audio = this.#fields.get("audio");
    if (audio instanceof SoundField) audio.hears(windows.length ? Math.min(...windows) : null);
    // What more it can be told is asked as soon as it is clear that it is no model for text alone.
    if (open && takes.length) lookInto(models).then((any) => any && this.learned());
  }

  #offer(kind, on, needed) {
    if (on && !this.#fields.has(kind)) {
      const field = new FIELDS[kind](`${this.#id}-${kind}`, this.#changed);
      this.#fields.set(kind, field);
      this.speech.box.before(field.box);
      field.show(this.#said[kind] ?? "");
    }
    const field = this.#fields.get(kind);
    if (!field) return;
    field.box.hidden = !on;
    field.needed(needed);
    if (!on) field.stop();
  }

  /** What a form gives a model and tells it, null where it takes nothing of the kind. */
  ask(model = "") {
    const takes = model ? takesOf(model).takes : this.#takes;
    const named = (kind) => (takes.includes(kind) && this.#fields.get(kind)?.value) || null;
    const told = takes.includes("audio") ? this.#told(model) : null;
    return { image: named("image"), audio: named("audio"), speech: told };
  }

  #told(model) {
    if (!model) return this.speech.ask();
    const { speech } = takesOf(model);
    return speech && this.speech.ask(speech);
  }

  /** @param {{ image?: string | null, audio?: string | null, speech?: Record<string, any> | null }} form */
  show(form) {
    this.speech.show(form.speech);
    for (const kind of KINDS) {
      this.#said[kind] = form[kind] ?? "";
      this.#fields.get(kind)?.show(this.#said[kind]);
    }
  }

  get #taken() {
    return this.#takes.flatMap((kind) => this.#fields.get(kind) ?? []);
  }

  /**
   * Do what was pressed: at once, or when what is on its way is there, unless something is missing.
   * @param {() => void} go
   */
  async ready(go) {
    if (this.#taken.some((field) => field.coming) && !(await this.#arrived())) return;
    if (this.#check()) go();
  }

  // False where it was refused, or somebody waits for it already.
  async #arrived() {
    if (this.#waits) return false;
    this.#waits = true;
    try {
      const came = await Promise.all(this.#taken.map((field) => field.arrived()));
      return came.every(Boolean);
    } finally {
      this.#waits = false;
    }
  }

  // Whether all is there that the model cannot do without; what is missing says so.
  #check() {
    const needed = this.#needs ? this.#fields.get(this.#needs) : null;
    return needed?.check() ?? true;
  }

  /** @param {string[]} kinds those that a link could not bring */
  lacks(kinds) {
    for (const kind of kinds) this.#fields.get(kind)?.wrong(notPartOf([kind]));
  }
}
