// The fields for a model's media inputs: picture, sound, speech task; none for a text-only model.
import { el } from "../../../visualizers/shared/dom.mjs";
import { KINDS, mediaMissingSentence } from "../shell/visitor_media.mjs";
import { fetchMediaInputs, getMediaInputs, hasKnownInputs } from "./media_inputs.mjs";
import { PictureField } from "./picture_field.mjs";
import { SoundField } from "./sound_field.mjs";
import { SpeechFields } from "./speech_fields.mjs";

/** @import { Kind } from "../shell/visitor_media.mjs" */

const FIELD_CLASSES = { image: PictureField, audio: SoundField };

export class MediaFields {
  // Kind -> field, made when a model first takes that kind.
  /** @type {Map<string, PictureField | SoundField>} */
  #fields = new Map();
  // Kind -> media named by a form before its field existed.
  /** @type {Record<string, string>} */
  #namesByKind = {};
  /** @type {string[]} */
  #kinds = [];
  /** @type {string | null} */
  #needs = null;
  #id;
  #changed;
  // Whether a press already waits for an upload; a second press is ignored.
  #isWaiting = false;

  /**
   * @param {string} id prefix of the elements' ids
   * @param {() => void} [changed]
   */
  constructor(id, changed = () => {}) {
    this.#id = id;
    this.#changed = changed;
    this.speech = new SpeechFields(id);
    this.box = el("div", { class: "md-fields" }, this.speech.box);
    this.box.hidden = true;
    // Called when the server has said which inputs a model takes.
    this.learned = () => {};
  }

  /** Whether the model takes anything besides text. */
  get any() {
    return this.#kinds.length > 0;
  }

  /**
   * Show the fields that the chosen models take; media already given stay.
   * @param {string[]} models
   */
  follow(models) {
    const each = models.map(getMediaInputs);
    // For an unknown model, trust a form with media: its run shows that the model takes them.
    const open = models.some((model) => !hasKnownInputs(model));
    const takes = KINDS.filter(
      (kind) => each.some((one) => one.takes.includes(kind)) || (open && this.#namesByKind[kind]),
    );
    this.#kinds = takes;
    this.#needs = each.find((one) => one.needs)?.needs ?? null;
    this.box.hidden = !takes.length;
    for (const kind of KINDS) this.#offer(kind, takes.includes(kind), this.#needs === kind);
    const told = each.flatMap((one) => one.speech ?? []);
    this.speech.follow(told, open && takes.includes("audio"));
    const windows = told.flatMap((one) => one.seconds ?? []);
    const audio = this.#fields.get("audio");
    if (audio instanceof SoundField) audio.hears(windows.length ? Math.min(...windows) : null);
    // Ask the server about the model's speech settings, once it is known to take media.
    if (open && takes.length) fetchMediaInputs(models).then((any) => any && this.learned());
  }

  /**
   * @param {Kind} kind
   * @param {boolean} on
   * @param {boolean} needed
   */
  #offer(kind, on, needed) {
    if (on && !this.#fields.has(kind)) {
      const field = new FIELD_CLASSES[kind](`${this.#id}-${kind}`, this.#changed);
      this.#fields.set(kind, field);
      this.speech.box.before(field.box);
      field.show(this.#namesByKind[kind] ?? "");
    }
    const field = this.#fields.get(kind);
    if (!field) return;
    field.box.hidden = !on;
    field.markNeeded(needed);
    if (!on) field.stop();
  }

  /** Return the media names and speech settings for a model; null for kinds it does not take. */
  ask(model = "") {
    const takes = model ? getMediaInputs(model).takes : this.#kinds;
    /** @param {Kind} kind */
    const named = (kind) => (takes.includes(kind) && this.#fields.get(kind)?.value) || null;
    const told = takes.includes("audio") ? this.#speechSettings(model) : null;
    return { image: named("image"), audio: named("audio"), speech: told };
  }

  /** @param {string} model */
  #speechSettings(model) {
    if (!model) return this.speech.ask();
    const { speech } = getMediaInputs(model);
    return speech && this.speech.ask(speech);
  }

  /**
   * Fill the fields from a form.
   * @param {{ image?: string | null, audio?: string | null, speech?: Record<string, any> | null }} form
   */
  show(form) {
    this.speech.show(form.speech);
    for (const kind of KINDS) {
      this.#namesByKind[kind] = form[kind] ?? "";
      this.#fields.get(kind)?.show(this.#namesByKind[kind]);
    }
  }

  get #taken() {
    return this.#kinds.flatMap((kind) => this.#fields.get(kind) ?? []);
  }

  /**
   * Call a function as soon as all uploads have finished, unless one failed or media are missing.
   * @param {() => void} go
   */
  async ready(go) {
    if (this.#taken.some((field) => field.isUploading) && !(await this.#waitForUploads())) return;
    if (this.#check()) go();
  }

  // False if an upload failed or another press already waits.
  async #waitForUploads() {
    if (this.#isWaiting) return false;
    this.#isWaiting = true;
    try {
      const came = await Promise.all(this.#taken.map((field) => field.finishUpload()));
      return came.every(Boolean);
    } finally {
      this.#isWaiting = false;
    }
  }

  // Whether the needed media are given; the field shows what is missing.
  #check() {
    const needed = this.#needs ? this.#fields.get(this.#needs) : null;
    return needed?.check() ?? true;
  }

  /**
   * Show that a link did not contain these media.
   * @param {string[]} kinds
   */
  lacks(kinds) {
    for (const kind of kinds) this.#fields.get(kind)?.wrong(mediaMissingSentence([kind]));
  }
}
