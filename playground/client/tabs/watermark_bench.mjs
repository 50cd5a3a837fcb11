// The watermark bench tab: writes a marked and an unmarked text from one seed, and tests any text.
import { el } from "../../../visualizers/shared/dom.mjs";
import { parseMessage, said, translateElement } from "../../../visualizers/shared/server_text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { Field } from "../forms/field.mjs";
import { Form } from "../forms/form.mjs";
import { ModelPicker } from "../forms/model_picker.mjs";
import { PromptField } from "../forms/prompt_field.mjs";
import { SpecialTokensField } from "../forms/special_tokens_field.mjs";
import { beginJob, createJobButtons, receiveProgress } from "../jobs/job.mjs";
import { fetchRecorded } from "../runs/recorded_runs.mjs";
import { buildFormLink, registerLink } from "../shell/address.mjs";
import { registerOtherTab } from "../shell/other_tabs.mjs";
import { store } from "../shell/page_state.mjs";
import { getDeclaration, getStrategy } from "../shell/spec.mjs";
import { mountLayout } from "../shell/tab_layout.mjs";

const KEY = "watermark_bench";
const ABOUT = tr(
  "Write a marked and an unmarked text from one seed, or paste any text, and watch the verdict move as you replace words. The prompt is never counted.",
);
const NO_VERDICT = tr(
  "The verdict appears here: every token's colour, T, the green count, z, the exact p-value, and z over the text.",
);
const NO_PAIR = tr(
  "Write both texts to see them side by side, with what the mark costs in perplexity.",
);
const RECORDED_PAIR = tr(
  "A recorded pair. Press Write both to make your own, or edit the text above and watch its verdict.",
);
const TEXT_LABEL = tr("Text to judge: written below, pasted or edited");
const TEXT_ROWS = 5;
// Characters; much longer addresses may be cut in transit.
const MAX_LINKED_CHARS = 2000;

// Verdicts use a separate element, because a verdict and a generated text may arrive together.
/** @type {Context["trigger"] | null} */
let askJudge = null;
/** @type {WatermarkBench | null} */
let bench = null;

/** @param {string} words */
const createNote = (words) => el("p", { class: "dp-note" }, words);

/**
 * @param {HTMLElement} node
 * @param {string} html safe: the server escapes the texts in it
 */
function setHtml(node, html) {
  node.innerHTML = html;
  translateElement(node, ".t, .wm-draft");
}

class WatermarkBench {
  // Whether the visitor or a link has changed the form.
  #touched = false;

  text = el("textarea", {
    id: "wb-text-input",
    rows: TEXT_ROWS,
    placeholder: tr("Paste a text; it is judged as you type."),
  });

  /**
   * @param {HTMLElement} root
   * @param {Context["trigger"]} trigger
   */
  constructor(root, trigger) {
    this.trigger = trigger;
    const { watermark_bench: bench, seed } = getDeclaration();
    const strategy = getStrategy("watermark");
    this.models = new ModelPicker(strategy, "wb");
    this.seed = new Field(seed, "wb-seed");
    this.seed.value = 0;
    const only = { ...strategy.only, ...bench.only };
    this.form = new Form(bench.params, "wb", {}, { only });
    this.models.form = this.form;
    this.prompt = new PromptField("wb-prompt", {
      prompt: bench.prompt,
      go: () => this.#write(),
      models: () => [this.models.values().model],
      forms: () => [this.form],
      chat: false,
    });
    this.say = el("p", { class: "dp-status", role: "status" });
    this.judged = el("div", { id: "wb-judged", class: "wb-part" }, createNote(NO_VERDICT));
    this.pair = el("div", { id: "wb-pair", class: "wb-part" }, createNote(NO_PAIR));
    this.special = new SpecialTokensField(
      "wb-text",
      () => [this.models.values().model],
      () => [this.form],
      () => ({ prompt: this.text.value }),
      tr("Special tokens in the text"),
    );
    const label = el("label", { for: "wb-text-input" }, TEXT_LABEL);
    const parts = [label, this.text, this.special.box];
    this.words = el("div", { class: "f-field", id: "wb-text" }, parts);
    const buttons = createJobButtons(KEY, tr("Write both"), () => this.#write(), "wb");
    mountLayout(root, tr("Watermark bench"), ABOUT, {
      ask: [this.prompt.box, el("div", { class: "f-acts" }, buttons), this.say],
      right: [this.words, this.judged, this.pair],
      settings: [...this.models.boxes, this.form.weights, this.seed.box, this.form.box],
    });
    const settings = root.querySelector(".dp-settings");
    store.watch({
      active: (key) => key === KEY && this.#showStatus(store.activity(KEY)?.says ?? ""),
    });
    for (const part of [this.prompt.box, this.words, settings])
      part?.addEventListener("input", () => {
        this.#touched = true;
        this.special.look();
        this.#judge();
      });
    registerOtherTab("watermark_bench", this);
    registerLink(root, () => (this.#touched ? this.#link() : "?tab=watermark_bench"));
    this.#example().catch(() => {});
  }

  async #example() {
    const { pair, text } = await fetchRecorded("watermark_bench");
    if (this.#touched) return;
    setHtml(this.pair, pair);
    this.pair.prepend(createNote(RECORDED_PAIR));
    this.text.value = text;
    this.#judge();
  }

  #link() {
    const { text, ...asked } = this.#ask();
    const form = { ...asked, device: asked.params.device };
    return buildFormLink(
      "watermark_bench",
      text.length > MAX_LINKED_CHARS ? form : { ...form, text },
    );
  }

  /**
   * Fill the form from a link; a text in it is tested at once.
   * @param {{ form?: any }} found
   * @param {boolean} [itself] whether to begin what the link asks for
   */
  restore({ form }, itself = false) {
    if (!form) return;
    this.#touched = true;
    this.models.show(form.model, form.assistant);
    this.seed.value = form.seed;
    this.form.show({
      ...form.values,
      device: form.device ?? getDeclaration().watermark_bench.params[0].value,
    });
    this.prompt.show({ prompt: form.prompt });
    this.text.value = form.text ?? "";
    this.special.look();
    if (!itself) return;
    if (form.text) this.#judge();
    else this.#write(true);
  }

  /** @param {string} error */
  refuse(error) {
    this.#showStatus(error, true);
  }

  #ask() {
    return {
      prompt: this.prompt.area.value,
      ...this.models.values(),
      seed: this.seed.value,
      text: this.text.value,
      params: this.form.values(),
    };
  }

  #write(linked = false) {
    const asked = this.#ask();
    this.#touched = true;
    /** @param {object} more */
    const send = (more) => this.trigger("input", { ...asked, ...more });
    beginJob(KEY, send, this.#link(), { linked });
  }

  #judge() {
    askJudge?.("input", this.#ask());
  }

  // The judge's element is connected: test the text that was entered before.
  connected() {
    if (this.text.value) this.#judge();
  }

  /** @param {string} sentence */
  #showStatus(sentence, bad = false) {
    this.say.className = `dp-status${bad ? " bad" : ""}${store.busy(KEY) ? " busy" : ""}`;
    this.say.textContent = said(sentence);
  }

  /** @param {string} text a message of the server, as JSON */
  receive(text) {
    if (!text) return;
    const message = parseMessage(text);
    receiveProgress(KEY, message);
    if (message.pair) setHtml(this.pair, message.pair);
    if (message.text !== undefined) this.#showText(message.text);
    if (message.judged !== undefined) this.judgedAs(message.judged);
    if (!message.error) return;
    this.pair.querySelector(".wm-writing")?.remove();
    if (!message.stopped) this.#showStatus(message.error, true);
  }

  /**
   * Show a verdict without ending the run that may be active.
   * @param {string} text a message of the judge, as JSON
   */
  receiveVerdict(text) {
    const { judged, failed } = parseMessage(text);
    if (failed) this.#showStatus(failed, true);
    else this.judgedAs(judged);
  }

  /** @param {string} verdict as HTML, empty for none */
  judgedAs(verdict) {
    if (verdict) setHtml(this.judged, verdict);
    else this.judged.replaceChildren(createNote(NO_VERDICT));
  }

  /** @param {string} text */
  #showText(text) {
    this.text.value = text;
    this.special.look();
    this.form.show({
      ...this.form.values(),
      device: getDeclaration().watermark_bench.params[0].value,
    });
  }
}

/**
 * @param {HTMLElement} root
 * @param {Context["trigger"]} trigger
 */
export function mountBench(root, trigger) {
  bench = new WatermarkBench(root, trigger);
  return bench;
}

/** @param {Context["trigger"]} trigger */
export function connectJudge(trigger) {
  askJudge = trigger;
  bench?.connected();
  return {
    /** @param {string} text a message of the judge, as JSON */
    receive: (text) => text && bench?.receiveVerdict(text),
  };
}
