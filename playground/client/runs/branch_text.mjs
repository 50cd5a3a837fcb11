// The text that a person types to continue a run, and how its special tokens are read.
import { el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { SpecialTokensField } from "../forms/special_tokens_field.mjs";

/** @typedef {ReturnType<typeof import("../forms/strategy_form.mjs").createStrategyForm>} BranchForm */

let serial = 0;

export class BranchText {
  /**
   * @param {{ form: () => BranchForm | null, chat: () => boolean, changed: () => void, start: () => void }} options
   *   form: the branch's settings, null before there is a run; chat: whether the run answers
   *   messages; start: called on Enter
   */
  constructor({ form, chat, changed, start }) {
    this.input = el("input", {
      type: "text",
      maxlength: 2000,
      placeholder: tr("or type a text"),
      "aria-label": tr("Text to continue with"),
      oninput: () => {
        changed();
        this.special.look();
      },
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        start();
      },
    });
    const own = () => [form()].flatMap((found) => (found ? [found.parts] : []));
    this.special = new SpecialTokensField(
      `branch-text-${++serial}`,
      () => own().map(({ models }) => models.values().model),
      () => own().map((parts) => parts.form),
      () => ({ prompt: this.value, chat: chat() }),
      tr("Special tokens in the text"),
    );
  }

  get value() {
    return this.input.value;
  }

  clear() {
    this.input.value = "";
    this.special.look();
  }
}
