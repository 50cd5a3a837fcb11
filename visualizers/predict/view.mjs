// View with a switch that hides the rest of a run. The visitor guesses each token, then sees the
// written token and the model's probability of both.
import { createButton, el } from "../shared/dom.mjs";
import { said } from "../shared/server_text.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { makeVisible, tokenLabel, tokensText } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { chooseOffers, matchTypedText, scoreGuesses } from "./game.mjs";
import { Rounds } from "./rounds.mjs";
import { endText, renderScore, revealText, skipText } from "./words.mjs";

/** @typedef {import("./rounds.mjs").Said} Said */

/**
 * Asks the server for the probability of a typed text.
 * @typedef {(run: Run, step: number, text: string) => Promise<
 *   { token_id: number, name: string, logprob: number | null, rank: number, note: string } | { error: string }>} OddsOf
 */

const SWITCH_LABEL = tr("Predict, then reveal");
const SWITCH_HELP = tr("Hides what comes next; you guess it, token by token");
const WAITING_TEXT = tr("The next step is not there yet: the model is still writing.");
const CHOOSE_TEXT = tr("Choose a token or type one; “Show it” shows it without a guess.");
const ASKING_TEXT = tr("Asking the model…");
const TYPING_HINT = tr("A word may be typed with the space before it or without.");
const ACCEPTED_NOTE = tr(
  "In bold: what the draft had and this step accepted. Yours comes after it.",
);
const MAX_CONTEXT_TOKENS = 24;

let instanceCount = 0;

class Predict {
  /** @type {Rounds | null} */
  #rounds = null;
  #on = false;
  // Where the card is while nothing is guessed.
  /** @type {HTMLElement | null} */
  #home = null;
  #drawnKey = "";
  // Whether the next drawing moves the focus into the view.
  #focus = false;
  // Number of the newest question; answers to older ones are ignored.
  #questionCount = 0;
  /** @type {HTMLInputElement[]} */
  #choices = [];
  #typed = el("input", {});

  /**
   * @param {HTMLElement} root
   * @param {Context} ctx
   * @param {OddsOf | null} oddsOf
   */
  constructor(root, ctx, oddsOf) {
    this.ctx = ctx;
    this.oddsOf = oddsOf;
    this.name = `pd-offer-${++instanceCount}`;
    this.switch = createButton(
      SWITCH_LABEL,
      () => (this.#on ? this.#stopGuessing() : this.#startGuessing()),
      {
        class: "dp-btn pd-switch",
        role: "switch",
        "aria-checked": "false",
        title: SWITCH_HELP,
      },
    );
    this.score = el("p", { class: "pd-score", "aria-live": "polite" });
    this.say = el("p", { class: "pd-status", role: "status" });
    this.box = el("div", { class: "pd-box" });
    root.classList.add("pd-root");
    root.addEventListener("keydown", (event) => this.#handleKey(event));
    root.append(el("div", { class: "pd-head" }, this.switch, this.score), this.say, this.box);
    this.root = root;
  }

  #startGuessing() {
    this.#rounds = null;
    this.#drawnKey = "";
    this.#on = true;
    this.#focus = true;
    this.switch.setAttribute("aria-checked", "true");
    this.#showNextToText();
    this.#showStatus("");
    this.score.replaceChildren();
    this.ctx.cover((run) => this.#coverRun(run));
  }

  // Leave the game. The score stays visible.
  #stopGuessing(sentence = "") {
    const had = this.root.contains(document.activeElement);
    this.#on = false;
    this.#questionCount += 1;
    this.switch.setAttribute("aria-checked", "false");
    this.#setGuessing(false);
    this.box.replaceChildren();
    this.#showStatus(sentence);
    this.ctx.cover(null);
    const card = this.root.parentElement;
    if (card && this.#home !== card.parentElement) this.#home?.append(card);
    if (had) this.switch.focus();
  }

  // The panels are hidden while a token is guessed.
  #showNextToText() {
    const card = this.root.parentElement;
    this.#home = card?.parentElement ?? null;
    const main = this.root.closest(".dp-main");
    if (card && this.#home !== main) main?.querySelector(":scope > .dp-v-scrub")?.after(card);
  }

  /** @param {Run} run */
  #coverRun(run) {
    if (this.#rounds?.run !== run) {
      this.#questionCount += 1;
      this.#rounds = new Rounds(run);
    }
    return this.#rounds.look();
  }

  /** @param {string} sentence */
  #showStatus(sentence) {
    if (this.say.textContent !== sentence) this.say.textContent = sentence;
  }

  /**
   * Hide the step's views while it is guessed.
   * @param {boolean} on
   */
  #setGuessing(on) {
    this.root.closest(".dp-main")?.classList.toggle("guessing", on);
  }

  update() {
    const rounds = this.#rounds;
    if (!this.#on || !rounds) return;
    // Leaving mounts the other views again, so it waits until they have been drawn.
    if (rounds.phase === "over") {
      this.score.replaceChildren(...renderScore(scoreGuesses(rounds.guesses)));
      return queueMicrotask(() => this.#on && this.#stopGuessing(endText(rounds)));
    }
    const key = `${rounds.run.id}:${rounds.phase}:${rounds.index}`;
    if (key === this.#drawnKey) return;
    this.#drawnKey = key;
    const had = this.#focus || this.root.contains(document.activeElement);
    this.#focus = false;
    this.#setGuessing(rounds.phase !== "shown");
    this.score.replaceChildren(...renderScore(scoreGuesses(rounds.guesses)));
    if (rounds.phase === "guess") this.#drawGuess(rounds);
    else if (rounds.phase === "shown") this.#drawShown(rounds);
    else {
      this.#showStatus(WAITING_TEXT);
      this.box.replaceChildren(this.#createButtons());
    }
    const first = this.box.querySelector(".pd-first") ?? this.box.querySelector("button");
    if (had && first instanceof HTMLElement) first.focus();
  }

  select() {}

  clear() {
    this.#drawnKey = "";
  }

  /** @param {...(HTMLElement | undefined)} buttons */
  #createButtons(...buttons) {
    const leave = createButton(tr("Leave"), () => this.#stopGuessing(), { title: tr("Escape") });
    return el("div", { class: "dp-row pd-row" }, buttons, leave);
  }

  /**
   * The end of the text, and a gap for the next token.
   * @param {Rounds} rounds
   */
  #createText({ before: { text, accepted }, cover }) {
    const cut = text.length > MAX_CONTEXT_TOKENS ? "…" : "";
    return el(
      "p",
      { class: "pd-text" },
      cut + tokensText(cover, text.slice(-MAX_CONTEXT_TOKENS)),
      accepted.length ? el("b", {}, tokensText(cover, accepted)) : null,
      el("span", { class: "pd-gap", role: "img", "aria-label": tr("the next token") }, "?"),
    );
  }

  /** @param {Rounds} rounds */
  #drawGuess(rounds) {
    const { cover, step, index, before } = rounds;
    const offers = chooseOffers(cover, step);
    this.#choices = offers.map((id, i) =>
      el("input", {
        type: "radio",
        class: i ? "" : "pd-first",
        name: this.name,
        value: id,
        onchange: () => this.#clearTyped(),
      }),
    );
    const labels = this.#choices.map((choice, i) =>
      el(
        "label",
        { class: "pd-offer" },
        choice,
        el("kbd", { "aria-hidden": "true" }, i + 1),
        el("span", {}, tokenLabel(cover, offers[i])),
      ),
    );
    this.#typed = el("input", {
      type: "text",
      maxlength: 200,
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      placeholder: tr("or type one"),
      "aria-label": tr("Type the next token"),
      title: TYPING_HINT,
      oninput: () => this.#clearChoices(),
    });
    const ask = renderTerms(tr("Step {n}: which [token] comes next?", { n: index + 1 }));
    this.box.replaceChildren(
      this.#createText(rounds),
      ...(before.accepted.length ? [el("p", { class: "dp-note" }, ACCEPTED_NOTE)] : []),
      el("fieldset", { class: "pd-offers" }, el("legend", {}, ask), labels),
      el("div", { class: "pd-line" }, this.#typed, el("p", { class: "dp-note" }, TYPING_HINT)),
      this.#createButtons(
        createButton(tr("Reveal"), () => this.#checkGuess(), {
          class: "dp-btn pd-submit",
          title: tr("Enter"),
        }),
        createButton(tr("Show it"), () => this.#revealGuess(null), {
          title: tr("Without a guess"),
        }),
      ),
    );
    // The question is the group's legend, which screen readers read with the focus.
    this.#showStatus(skipText(rounds));
  }

  #clearTyped() {
    this.#typed.value = "";
  }

  #clearChoices() {
    for (const choice of this.#choices) choice.checked = false;
  }

  /** @param {Rounds} rounds */
  #drawShown(rounds) {
    const { said: guess, written, index, run, cover } = rounds;
    const id = guess?.token_id;
    const other = id !== undefined && id !== written.token_id && run.status !== "running";
    const why = () => this.ctx.ask?.({ step: index, token_id: id });
    this.box.replaceChildren(
      this.#createButtons(
        createButton(tr("Next"), () => this.#showNext(), {
          class: "dp-btn pd-submit pd-first",
          title: tr("Enter"),
        }),
        other && this.ctx.ask
          ? createButton(tr("Why not “{token}”?", { token: tokenLabel(cover, id) }), why)
          : undefined,
      ),
    );
    this.#showStatus(revealText(rounds));
  }

  #showNext() {
    // A held key repeats faster than the stage is drawn.
    if (this.#rounds?.phase !== "shown") return;
    this.#rounds.next();
    this.#redraw();
  }

  /** @param {Said | null} guess */
  #revealGuess(guess) {
    if (this.#rounds?.phase !== "guess") return;
    this.#questionCount += 1;
    this.#rounds.reveal(guess);
    this.#redraw();
  }

  // Draw the stage again with the part that is visible now.
  #redraw() {
    this.ctx.cover((run) => this.#coverRun(run));
  }

  #checkGuess() {
    if (this.#rounds?.phase !== "guess") return;
    const { cover, step } = this.#rounds;
    const chosen = this.#choices.find((choice) => choice.checked);
    const text = this.#typed.value;
    if (!chosen && !text.trim()) return this.#showStatus(CHOOSE_TEXT);
    const found = chosen
      ? { candidate: step.candidates.find((c) => c.token_id === Number(chosen.value)) }
      : matchTypedText(cover, step, text);
    if (!found.candidate) return this.#askProbability(this.#rounds, text, found);
    const { token_id, raw_logprob: logprob, rank } = found.candidate;
    this.#revealGuess({ name: tokenLabel(cover, token_id), token_id, logprob, rank });
  }

  /**
   * @param {Rounds} rounds
   * @param {string} text
   * @param {{ most?: number | null }} known
   */
  async #askProbability({ run, index, whole }, text, { most }) {
    const unknown = { name: makeVisible(text), most };
    if (!this.oddsOf) return this.#revealGuess(unknown);
    const mine = ++this.#questionCount;
    this.#showStatus(ASKING_TEXT);
    this.box.setAttribute("aria-busy", "true");
    const odds = await this.oddsOf({ ...run, ...whole }, index, text);
    this.box.removeAttribute("aria-busy");
    if (mine !== this.#questionCount) return;
    if ("error" in odds) return this.#revealGuess({ ...unknown, more: said(odds.error) });
    const { note: sentence, ...known } = odds;
    this.#revealGuess({ ...known, more: said(sentence) });
  }

  /** @param {KeyboardEvent} event */
  #handleKey(event) {
    if (!this.#on || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target === this.#typed;
    const choice = typing ? undefined : this.#choices[Number(event.key) - 1];
    if (event.key === "Escape") this.#stopGuessing();
    else if (event.key === "Enter" && event.target instanceof HTMLInputElement) this.#checkGuess();
    else if (choice?.isConnected) {
      choice.checked = true;
      choice.focus();
      this.#clearTyped();
    } else return;
    event.preventDefault();
  }
}

/**
 * @param {OddsOf | null} [oddsOf]
 * @returns {ViewSpec}
 */
export const createPredictView = (oddsOf = null) => ({
  title: SWITCH_LABEL,
  heading: false,
  place: "drawer",
  covers: true,
  mount: (root, ctx) => new Predict(root, ctx, oddsOf),
});
