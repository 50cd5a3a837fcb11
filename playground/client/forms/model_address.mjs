// A model behind an address: the fields of its address and name, and what its server reports.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { StoppableQuestion } from "../jobs/question.mjs";
import { askWhenReady } from "../shell/questions.mjs";

// As the engine names such a model: endpoint:ADDRESS#MODEL.
const PREFIX = "endpoint:";
const SERVER = "server";
const DRAWS = {
  [SERVER]: tr("The server"),
  own: tr("This playground, one token per request"),
};
const OWN_HELP = tr(
  "Temperature, top-k, top-p and min-p work here. The server must list candidates with ids.",
);
const ASKING = tr("Asking the server for two tokens…");

/**
 * Return whether a server computes a model, by its name.
 * @param {string} model
 */
export const isAddressed = (model) => model.startsWith(PREFIX);

/**
 * Return the name of a model without its address; another name stays as it is.
 * @param {string} model
 */
export const withoutAddress = (model) =>
  isAddressed(model) ? model.slice(model.indexOf("#") + 1) : model;

/**
 * Return who draws the tokens of a run, as a few words.
 * @param {Record<string, any>} values of its form, by parameter
 */
export const drawerTitle = ({ sampler = SERVER }) =>
  sampler in DRAWS ? DRAWS[/** @type {keyof typeof DRAWS} */ (sampler)] : String(sampler);

/**
 * @param {string} label
 * @param {string} id
 * @param {string} example
 */
function createField(label, id, example) {
  const input = el("input", {
    type: "text",
    id,
    placeholder: example,
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
  });
  return { input, parts: [el("label", { for: id }, label), input] };
}

export class ModelAddress {
  #question = new StoppableQuestion();

  /**
   * @param {string} id prefix of the elements' ids
   * @param {"" | "own" | "either"} drawer who may draw the tokens: nobody, this playground only, or also
   *   the server
   */
  constructor(id, drawer) {
    const address = createField(tr("Address"), `${id}-address`, "http://127.0.0.1:8080/v1");
    const model = createField(tr("Model there"), `${id}-served`, "my-model");
    this.address = address.input;
    this.model = model.input;
    this.go = createButton(tr("Ask what it reports"), () => this.#ask());
    this.halt = createButton(tr("Stop asking"), () => this.#question.stop());
    this.say = el("p", { class: "f-help pf-status", role: "status" });
    const options = Object.entries(DRAWS).map(([value, title]) => el("option", { value }, title));
    this.drawer = el(
      "select",
      { id: `${id}-sampler`, onchange: () => this.#explainDraw() },
      options,
    );
    this.drawHelp = el("p", { class: "f-help" }, OWN_HELP);
    if (drawer === "own") this.drawer.value = drawer;
    const choice = [el("label", { for: this.drawer.id }, tr("Who draws the tokens")), this.drawer];
    const draw = [drawer === "either" ? choice : [], drawer ? this.drawHelp : []].flat();
    this.#explainDraw();
    const acts = el("div", { class: "dp-row" }, this.go, this.halt);
    this.box = el("div", { class: "f-address" }, address.parts, model.parts, draw, acts, this.say);
    this.box.addEventListener("input", () => this.#forget());
    this.box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      this.#ask();
    });
    this.hide();
  }

  /** Name of the model, as the engine reads it. */
  get name() {
    return `${PREFIX}${this.address.value.trim()}#${this.model.value.trim()}`;
  }

  /** Who draws the tokens, as the engine reads it. */
  get sampler() {
    return this.drawer.value;
  }

  set sampler(name) {
    this.drawer.value = name in DRAWS ? name : SERVER;
    this.#explainDraw();
  }

  #explainDraw() {
    this.drawHelp.hidden = this.sampler === SERVER;
  }

  /** @param {string} [name] the model to fill in; without it, what was typed last stays */
  show(name) {
    if (name !== undefined) {
      this.#forget();
      this.address.value = name.slice(PREFIX.length).split("#", 1)[0];
      this.model.value = withoutAddress(name);
    }
    this.box.hidden = false;
  }

  hide() {
    this.#forget();
    this.box.hidden = true;
  }

  // What was said is about another model.
  #forget() {
    this.#question.stop();
    this.#question.forget();
    this.#tell("");
  }

  async #ask() {
    if (this.#question.isOpen) return;
    if (!this.address.value.trim())
      return this.#demand(this.address, tr("Write an address first."));
    if (!this.model.value.trim()) return this.#demand(this.model, tr("Name a model first."));
    const asked = { action: "probe", model: this.name };
    const question = this.#question.ask((press) => askWhenReady({ ...asked, press }));
    this.#tell(ASKING, true);
    const found = await question;
    if (found) this.#tell(said(found.error ?? found.says));
  }

  /**
   * @param {HTMLElement} field
   * @param {string} text
   */
  #demand(field, text) {
    this.#tell(text);
    field.focus();
  }

  /**
   * @param {string} text
   * @param {boolean} [asking]
   */
  #tell(text, asking = false) {
    // Hiding the focused button would lose the focus.
    if (!asking && document.activeElement === this.halt) this.go.focus();
    this.say.textContent = text;
    this.halt.hidden = !asking;
  }
}
