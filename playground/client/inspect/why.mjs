// The Why view: the server explains why one token of the selected step was chosen or not.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { findAskedPlace, findSelectedToken } from "../../../visualizers/shared/record.mjs";
import { said } from "../../../visualizers/shared/server_text.mjs";
import { tokenLabel } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { StoppableQuestion } from "../jobs/question.mjs";
import { askAboutStep } from "./step_questions.mjs";

const PAUSE_MS = 250;
const RUNNING_TEXT = tr("When the run has ended, you can ask about every token.");
const HINT = tr("A word begins with a space.");

/**
 * What is asked about: a node, a drafted token, a typed text, or a quick answer.
 * @typedef {Omit<Asked, "step"> & { text?: string, quick?: boolean }} Wanted
 */

/** @typedef {{ name: string, value: string, meaning: string }} Fact */

/**
 * The server's explanation of one token.
 * @typedef {object} Explanation
 * @property {string} name
 * @property {boolean} chosen
 * @property {string} sentence
 * @property {Fact[]} facts
 * @property {string} scope
 * @property {boolean} exact
 * @property {string} [said] a further sentence
 * @property {number} token_id
 */

class WhyPanel {
  /** @type {Run | null} */
  #run = null;
  #index = -1;
  /** @type {ReturnType<typeof findAskedPlace>} */
  #place = {};
  #key = "";
  #timer = 0;
  #question = new StoppableQuestion();
  /** @type {Wanted} */
  #last = {};
  /** @type {Asked | null} */
  #wanted = null;
  // Whether the view says that the run has not ended yet.
  #waits = false;

  /**
   * @param {HTMLElement} root
   * @param {Context} ctx
   */
  constructor(root, ctx) {
    this.ctx = ctx;
    this.typed = el("input", {
      type: "text",
      maxlength: 200,
      placeholder: tr(" another token"),
      "aria-label": tr("Ask about another token"),
      title: HINT,
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        this.#askTyped();
      },
    });
    this.go = createButton(tr("Why not?"), () => this.#askTyped(), { class: "dp-btn wy-go" });
    this.own = createButton("", () => this.#fetchAnswer(this.#place), { class: "dp-btn wy-own" });
    this.say = el("div", { class: "wy-status", role: "status" });
    this.more = el("div", { class: "wy-more" });
    const line = el("div", { class: "wy-line" }, this.typed, this.go);
    root.classList.add("wy-root");
    root.append(this.say, this.more, line, el("p", { class: "dp-note wy-hint" }, HINT), this.own);
    this.root = root;
    ctx.ask = (question) => this.#receiveQuestion(question);
    // A panel that becomes visible asks about its step by itself.
    new IntersectionObserver(() => this.#scheduleQuickAnswer()).observe(root);
  }

  /** @param {Run} run */
  update(run) {
    const at = run.selected ?? -1;
    if (run.steps[at]) this.select(run, at);
  }

  /**
   * @param {Run} run
   * @param {number} index
   */
  select(run, index) {
    const running = run.status === "running";
    const place = findAskedPlace(run, run.steps[index]);
    const asked = JSON.stringify(place);
    const key = `${run.id}:${index}:${asked}:${running}`;
    if (key === this.#key) return this.#askPending();
    const same =
      this.#run === run && this.#index === index && JSON.stringify(this.#place) === asked;
    this.#place = place;
    this.#key = key;
    this.#run = run;
    this.#index = index;
    const able = !running && run.status !== "failed";
    for (const field of [this.typed, this.go, this.own]) field.disabled = !able;
    this.own.hidden = true;
    const waited = this.#waits;
    this.#waits = running;
    if (!able) return this.#showText(running ? RUNNING_TEXT : "");
    if (!same || waited) {
      this.#last = {};
      this.#showText("");
    }
    if (this.#wanted) this.#askPending();
    else this.#scheduleQuickAnswer();
  }

  clear() {
    this.#run = null;
    this.#key = "";
    this.#last = {};
    this.#question.forget();
    clearTimeout(this.#timer);
    this.#showText("");
  }

  /**
   * Take another view's question about a candidate, a node or a drafted token. Selects its step.
   * @param {Asked} question
   */
  #receiveQuestion(question) {
    this.#wanted = question;
    if (question.step !== undefined && question.step !== this.#run?.selected)
      this.ctx.select(question.step);
    this.ctx.open("why");
    if (this.#run && this.#run.selected === this.#index) this.#askPending();
  }

  // Ask the pending question once its step is selected.
  #askPending() {
    const { step, ...what } = this.#wanted ?? {};
    if (!this.#wanted || !this.#run || (step ?? this.#index) !== this.#index) return;
    this.#wanted = null;
    if (this.typed.disabled) return;
    this.#fetchAnswer(what);
    this.root.closest("section")?.scrollIntoView({ block: "nearest" });
  }

  #askTyped() {
    if (!this.typed.value) return this.typed.focus();
    this.#fetchAnswer({ text: this.typed.value });
  }

  // Explain the chosen token, but only if that needs no forward pass of the model.
  #scheduleQuickAnswer() {
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => {
      const run = this.#run;
      if (!run || run.status === "running" || run.status === "failed") return;
      if (!this.root.isConnected || this.root.offsetParent === null) return;
      if (this.say.childElementCount || !run.steps[this.#index]?.emit.length) return;
      // The record has no candidates of a drafted token.
      if (this.#place.at !== undefined) return this.#offerOwn(run, null);
      this.#fetchAnswer({ quick: true, ...this.#place });
    }, PAUSE_MS);
  }

  /** @param {Wanted} what */
  async #fetchAnswer(what) {
    const run = this.#run;
    const index = this.#index;
    if (!run?.steps[index]) return;
    clearTimeout(this.#timer);
    this.#last = what;
    this.root.setAttribute("aria-busy", "true");
    if (!what.quick) this.#showText(tr("Asking…"));
    const answer = await this.#question.ask(() =>
      askAboutStep(run, { action: "why", step: index, ...what }),
    );
    if (!answer) return;
    this.root.removeAttribute("aria-busy");
    // A player may have rewound to before the step meanwhile.
    if (!run.steps[index]) return;
    if (answer.error) return this.#showText(`⚠ ${said(answer.error)}`, "bad");
    this.#showAnswer(run, answer.answer);
  }

  /** @param {string} text */
  #showText(text, kind = "") {
    this.say.className = `wy-status ${kind}`;
    this.say.replaceChildren(...(text ? [el("p", { class: "dp-note" }, text)] : []));
    if (kind === "") this.more.replaceChildren();
    if (text) return;
    this.root.removeAttribute("aria-busy");
  }

  /**
   * @param {Run} run
   * @param {Explanation} answer
   */
  #showAnswer(run, { name, chosen, sentence, facts, scope, exact, said: more, token_id: id }) {
    const step = run.steps[this.#index];
    const title = el(
      "p",
      { class: "wy-title" },
      chosen ? tr("Why ") : tr("Why not "),
      el("b", {}, name),
      el("span", {}, tr(" at step {step}", { step: this.#index + 1 })),
    );
    this.say.className = `wy-status ${chosen ? "on" : "off"}`;
    this.say.replaceChildren(
      title,
      el("p", { class: "wy-sentence" }, said(sentence)),
      ...(more ? [el("p", { class: "dp-note" }, said(more))] : []),
    );
    const { quick: _, ...again } = this.#last;
    const exactly = createButton(tr("Recompute this step"), () => this.#fetchAnswer(again), {
      class: "dp-btn",
    });
    this.more.replaceChildren(
      el("dl", { class: "wy-facts" }, facts.flatMap(createFact)),
      el("p", { class: "dp-note" }, said(scope)),
      exact || run.method ? "" : exactly,
    );
    this.#offerOwn(run, chosen ? (findSelectedToken(run, step) ?? null) : id);
  }

  /**
   * Offer the question why the selected token was chosen, unless the answer shown is about that token.
   * @param {Run} run
   * @param {number | null} shown id of the token that the answer is about
   */
  #offerOwn(run, shown) {
    const own = findSelectedToken(run, run.steps[this.#index]);
    this.own.hidden = own === undefined || own === shown;
    if (own !== undefined)
      this.own.textContent = tr("Why “{token}”?", { token: tokenLabel(run, own) });
  }
}

/** @param {Fact} fact */
const createFact = ({ name, value, meaning }) => [
  el("dt", {}, said(name)),
  el("dd", {}, el("b", {}, said(value)), el("span", {}, said(meaning))),
];

/** @type {ViewSpec} */
export const why = {
  title: tr("Why"),
  recorded: true,
  place: "answers",
  empty: tr(
    "After a run, ask why a step took its token and not another one. Press the question mark next to a candidate, or type a token.",
  ),
  mount: (root, ctx) => new WhyPanel(root, ctx),
};
