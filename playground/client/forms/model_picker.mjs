// The model picker: a model and, if the strategy needs one, a draft model; listed or typed.
import { el } from "../../../visualizers/shared/dom.mjs";
import { isOnServer } from "../../../visualizers/shared/record.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { formatPercent } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { Choice } from "../shell/name_choice.mjs";
import { afterModelsChange, afterRefusals, getDeclaration } from "../shell/spec.mjs";
import { DraftFinder } from "./draft_models.mjs";
import { isAddressed, ModelAddress, withoutAddress } from "./model_address.mjs";
import { ModelInstall } from "./model_install.mjs";
import { Preflight } from "./preflight.mjs";

/** @import { StrategySpec } from "../shell/spec.mjs" */
/** @import { Form } from "./form.mjs" */

const MUCH_MEMORY_GB = 4;
const ADDRESS_VALUE = "\u0000address";
// The strategy whose tokens a server or this program may draw.
const DRAWING = "sampling";
const MODEL_ROLES = ["target", "seq2seq", "captions", "speech"];

/** @param {string} name */
const findModel = (name) => getDeclaration().models.find((m) => m.name === name);

/** @param {string} name */
const modelTitle = (name) => findModel(name)?.title ?? name;

/**
 * Return what a model needs beyond what every machine has.
 * @param {any} model
 */
const modelNeeds = (model) => [
  ...(model?.memory_gb >= MUCH_MEMORY_GB
    ? [tr("about {n} GB of memory", { n: Math.round(model.memory_gb) })]
    : []),
  ...(model?.gated ? [tr("accept its licence on the hub first")] : []),
];

/**
 * Return models as choices: those on the server's machine first, and apart if others are offered.
 * @param {string[]} names
 */
function toChoices(names) {
  const toDownload = (/** @type {string} */ name) => findModel(name)?.ready === false;
  const grouped = names.some(toDownload);
  const sorted = [
    ...names.filter((name) => !toDownload(name)),
    ...names.filter((name) => toDownload(name)),
  ];
  return sorted.map((name) => ({
    name,
    title: [modelTitle(name), ...modelNeeds(findModel(name))].join(" · "),
    group: grouped ? (toDownload(name) ? tr("To download") : tr("Ready")) : "",
  }));
}

/**
 * Return a run's backend, dtype, quantization and device as a short text.
 * @param {any} info model entry of the trace
 */
export function weightsSummary({ dtype, device, weights }) {
  const backend = weights?.backend === "torch" ? "" : weights?.backend;
  const ways = [backend, dtype, weights?.quantization].filter(Boolean).join(", ");
  const places = Object.entries(weights?.layers_on ?? {}).map(([place, n]) =>
    tr("{n} on {place}", { n, place }),
  );
  const same = weights?.agreement?.same_top;
  const agrees =
    same === undefined
      ? ""
      : tr(", another model: the same first choice at {share} of places", {
          share: formatPercent(same),
        });
  const where = places.length
    ? tr("; layers: {places}", { places: places.join(", ") })
    : tr(" on {device}", { device });
  return `${ways}${agrees}${where}`;
}

/**
 * Return the same as a sentence.
 * @param {any} info model entry of the trace
 */
export const weightsSentence = (info) =>
  tr("In this run, {model} uses {ways}.", {
    model: modelTitle(info.id).split(" · ")[0],
    ways: weightsSummary(info),
  });

class ModelChoice extends Choice {
  /**
   * @param {string} id
   * @param {string} label
   * @param {string} typed
   */
  constructor(id, label, typed) {
    const takesOthers = getDeclaration().typed_models;
    super(el("select", { id: `${id}-input` }), label, typed, { takesOthers });
    const name = el("label", { for: `${id}-input` }, label);
    this.box = el("div", { class: "f-field f-choice f-model", id }, name, this.select, this.own);
  }
}

/** A choice that also offers a model behind an address. */
class AddressChoice extends ModelChoice {
  /**
   * @param {string} id
   * @param {string} label
   * @param {string} typed
   * @param {{ refusal: string, drawer: "" | "own" | "either" }} strategy refusal: why it cannot use
   *   such a model, empty if it can; drawer: see ModelAddress
   */
  constructor(id, label, typed, { refusal, drawer }) {
    super(id, label, typed);
    this.address = new ModelAddress(id, drawer);
    const text = refusal
      ? tr("An address does not work here: {reason}", { reason: said(refusal) })
      : tr("An address…");
    this.option = el("option", { value: ADDRESS_VALUE, disabled: refusal !== "" }, text);
    this.own.after(this.address.box);
    this.select.addEventListener("change", () => this.#show());
  }

  #show() {
    if (this.select.value !== ADDRESS_VALUE) return this.address.hide();
    this.address.show();
    this.address.address.focus();
  }

  /**
   * @param {import("../shell/name_choice.mjs").Named[]} names
   * @param {Record<string, string>} [refused]
   */
  offer(names, refused) {
    super.offer(names, refused);
    this.select.lastElementChild?.before(this.option);
  }

  get value() {
    return this.select.value === ADDRESS_VALUE ? this.address.name : super.value;
  }

  set value(name) {
    super.value = name;
    if (isAddressed(name)) {
      this.select.value = ADDRESS_VALUE;
      this.own.hidden = true;
      this.address.show(name);
    } else this.address.hide();
  }
}

/**
 * Return a choice of models: of those behind an address too, where this page may use one.
 * @param {string} id
 * @param {{ refusal: string, drawer: "" | "own" | "either" }} strategy see AddressChoice
 */
export function createModelChoice(id, strategy) {
  const texts = /** @type {const} */ ([id, tr("Model"), tr("hub id or folder")]);
  return getDeclaration().addresses
    ? new AddressChoice(...texts, strategy)
    : new ModelChoice(...texts);
}

export class ModelPicker {
  /**
   * @param {Pick<StrategySpec, "name" | "model" | "assistant" | "refused" | "draft"> & { no_server?: string }} strategy
   * @param {string} id prefix of the elements' ids
   * @param {{ roles?: string[], addresses?: boolean, drawer?: "own" | "either" }} [options] roles:
   *   those of the models to list; addresses: whether the form may run a model behind an address;
   *   drawer: who may draw its tokens, if the strategy draws
   */
  constructor(strategy, id, { roles = MODEL_ROLES, addresses = false, drawer = "either" } = {}) {
    this.kind = strategy.draft;
    this.refused = strategy.refused;
    this.noServer = strategy.no_server ?? "";
    const model = `${id}-model`;
    this.model = addresses
      ? createModelChoice(model, {
          refusal: this.noServer,
          drawer: strategy.name === DRAWING ? drawer : "",
        })
      : new ModelChoice(model, tr("Model"), tr("hub id or folder"));
    const offer = () => {
      const offered = getDeclaration().models.filter((m) => roles.includes(m.role));
      this.model.offer(toChoices(offered.map((m) => m.name)), strategy.refused);
    };
    offer();
    afterRefusals(() => this.model.refuse(strategy.refused));
    /** @type {ModelChoice | null} */
    this.draft = null;
    if (this.kind !== "none") {
      this.draft = new ModelChoice(`${id}-assistant`, tr("Draft model"), tr("hub id or folder"));
      this.model.select.addEventListener("change", () => this.#offerDrafts());
    }
    this.note = el("p", { class: "f-help f-weights", "aria-live": "polite" });
    /**
     * The form with the model's weight settings, if there is one.
     * @type {Form | null}
     */
    this.form = null;
    // Called when the model's inputs are known; the owner replaces it.
    this.learned = () => {};
    const asked = () => ({
      model: this.model.value,
      strategy: strategy.name,
      params: this.form?.values() ?? {},
    });
    this.about = new Preflight(asked, () => this.learned());
    this.model.select.addEventListener("change", () => this.#forgetFacts());
    this.model.own.addEventListener("input", () => this.about.forget());
    this.model.own.addEventListener("change", () => this.model.value && this.about.look());
    const install = new ModelInstall((name) => this.#choose(name));
    this.install = install.node;
    afterModelsChange(() => {
      const { model, assistant } = this.values();
      offer();
      this.show(model, assistant);
      install.show();
    });
    this.model.box.append(install.node, this.note, this.about.box);
    this.#addDraftFinder(strategy);
    this.boxes = [this.model, ...(this.draft ? [this.draft] : [])].map((choice) => choice.box);
    this.show(strategy.model, strategy.assistant);
  }

  // What was said of the model before is gone. A server says itself what it reports.
  #forgetFacts() {
    this.about.forget();
    const served = isAddressed(this.model.value);
    this.about.box.hidden = this.install.hidden = served;
    this.form?.serve(served);
  }

  /**
   * Asks for further draft models only when the visitor chooses a model or opens the draft's list.
   * @param {{ name: string }} strategy
   */
  #addDraftFinder({ name }) {
    if (!this.draft && name !== "early_exit") return;
    const chosen = () => this.draft?.value ?? "";
    const finder = new DraftFinder(name, (names) => {
      const wanted = chosen();
      this.draft?.offer(toChoices(names.includes(wanted) || !wanted ? names : [...names, wanted]));
      if (this.draft) this.draft.value = wanted || names[0];
    });
    (this.draft ?? this.model).box.append(finder.say);
    this.drafts = finder;
    const look = () => finder.look(this.model.value, chosen);
    this.model.box.addEventListener("change", look);
    this.draft?.box.addEventListener("change", look);
    this.draft?.select.addEventListener("focus", look);
  }

  /**
   * Lists the draft models that fit the chosen model.
   * @param {string} [wanted]
   */
  #offerDrafts(wanted) {
    if (!this.draft) return;
    const { [this.kind]: drafts } = getDeclaration().drafts;
    const names = drafts[this.model.value] ?? drafts[""];
    this.draft.offer(toChoices(names));
    this.draft.value = wanted || names[0] || "";
  }

  /**
   * @param {string} model
   * @param {string} [assistant]
   * @param {Record<string, any>} [values] those of a form, by parameter; without them, who draws stays
   */
  show(model, assistant, values) {
    this.model.value = model;
    if (values && this.model instanceof AddressChoice) this.model.address.sampler = values.sampler;
    this.#forgetFacts();
    this.#offerDrafts(assistant);
  }

  /**
   * Choose a model as a visitor does.
   * @param {string} name
   */
  #choose(name) {
    this.model.value = name;
    this.model.select.dispatchEvent(new Event("change", { bubbles: true }));
  }

  /**
   * Show dtype and device of the displayed run's weights, and where its layers are.
   * @param {Run} [run]
   */
  tell(run) {
    const known = run?.model?.id && !isOnServer(run);
    this.note.textContent = known ? weightsSentence(run.model) : "";
  }

  /** Name of the chosen model, without its size, licence and address. */
  get title() {
    return modelTitle(withoutAddress(this.model.value)).split(" · ")[0];
  }

  /**
   * Return whether the strategy cannot use a model.
   * @param {string} name
   */
  refuses(name) {
    return name in this.refused || (isAddressed(name) && this.noServer !== "");
  }

  /** The parameter that says who draws the tokens of a model behind an address; none of another model. */
  drawParams() {
    const { model } = this;
    const own = model instanceof AddressChoice && isAddressed(model.value);
    return own && model.address.sampler === "own" ? { sampler: "own" } : {};
  }

  values() {
    return { model: this.model.value, assistant: this.draft ? this.draft.value : "" };
  }
}
