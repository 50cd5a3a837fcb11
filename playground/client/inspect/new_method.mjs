// The form that makes a new method from a template.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { renderTerms } from "../../../visualizers/shared/terms.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { askServer } from "../shell/questions.mjs";

const ABOUT = tr(
  "A [custom generation method] is a folder with a function generate(model, …). You start with a working copy and change it here; Run uses it.",
);
const FIRST_TEMPLATE = "next_token";

export class NewMethodForm {
  /**
   * @param {import("../forms/methods.mjs").Listed} about
   * @param {(name: string) => void} made called with the new method's name
   */
  constructor({ offers, starters, folder }, made) {
    this.made = made;
    /** @param {string} name */
    const toldOf = (name) => offers.find((o) => o.name === name)?.told ?? "";
    this.name = el("input", {
      type: "text",
      id: "method-new-name",
      maxlength: 63,
      spellcheck: "false",
      "aria-describedby": "method-new-say",
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        this.#make();
      },
    });
    const say = el("p", { class: "dp-note" });
    const tell = () => {
      say.textContent = said(toldOf(this.template.value));
    };
    this.template = el(
      "select",
      { id: "method-new-template", onchange: tell },
      starters.map((name) =>
        el("option", { value: name, selected: name === FIRST_TEMPLATE }, name),
      ),
    );
    tell();
    this.say = el("p", { class: "dp-status", id: "method-new-say", role: "status" });
    /**
     * @param {string} label
     * @param {HTMLElement} input
     */
    const field = (label, input) =>
      el("div", { class: "f-field f-text" }, el("label", { for: input.id }, label), input);
    this.node = el(
      "div",
      { class: "me-make" },
      el("p", { class: "dp-note" }, renderTerms(ABOUT)),
      field(tr("Its name"), this.name),
      field(tr("Begin with"), this.template),
      say,
      createButton(tr("Make it"), () => this.#make(), { class: "dp-btn f-go" }),
      this.say,
      el("p", { class: "dp-note" }, tr("It is kept in "), el("code", {}, folder), "."),
    );
  }

  async #make() {
    const name = this.name.value.trim();
    const template = this.template.value;
    this.say.className = "dp-status";
    this.say.textContent = tr("Writing it…");
    const { error } = await askServer({ action: "method_new", name, template });
    if (!error) return this.made(name);
    this.point(error);
    this.name.focus();
  }

  /** @param {string} sentence */
  point(sentence) {
    this.say.className = "dp-status bad";
    this.say.textContent = said(sentence);
  }

  focus() {
    this.name.focus();
  }

  leave() {}
}
