// View with a switch that hides the rest of a run. The visitor guesses each token, then sees the
// written token and the model's probability of both.
import { button, el } from "../shared/dom.mjs";
import { said } from "../shared/server_text.mjs";
import { told } from "../shared/terms.mjs";
import { piece, textOfIds, visible } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { offersOf, scoreOf, typedOf } from "./game.mjs";
import { Rounds } from "./rounds.mjs";
import { overSaid, passedSaid, revealSaid, scoreSaid } from "./words.mjs";

/** @typedef {import("./rounds.mjs").Said} Said */

/**
 * Asks the server for the probability of a typed text.
 * @typedef {(run: Run, step: number, text: string) => Promise<
 *   { token_id: number, name: string, logprob: number | null, rank: number, said: string } | { error: string }>} OddsOf
 */

const SWITCH = tr("Predict, then reveal");
const ABOUT = tr("Hides what comes next; you guess it, token by token");
const WAITING = tr("The next step is not there yet: the model is still writing.");
const CHOOSE = tr("Choose a token or type one; “Show it” shows it without a guess.");
const ASKING = tr("Asking the model…");
const HINT = tr("A word may be typed with the space before it or without.");
const ACCEPTED = tr("In bold: what the draft had and this step accepted. Yours comes after it.");
const SHOWN_BEFORE = 24;

let made = 0;

class Predict {
  /** @type {Rounds | null} */
  #rounds = null;
  #on = false;
  #drawn = "";
  // Whether the next drawing moves the focus into the view.
  #focus = false;
  // Number of the newest question; answers to older ones are ignored.
  #asked = 0;
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
    this.name = `pd-offer-${++made}`;
    this.switch = button(SWITCH, () => (this.#on ? this.#leave() : this.#begin()), {
      class: "dp-btn pd-switch",
      role: "switch",
      "aria-checked": "false",
      title: ABOUT,
    });
    this.score = el("p", { class: "pd-score", "aria-live": "polite" });
    this.say = el("p", { class: "pd-say", role: "status" });
    this.box = el("div", { class: "pd-box" });
    root.classList.add("pd-root");
    root.addEventListener("keydown", (event) => this.#press(event));
    root.append(el("div", { class: "pd-head" }, this.switch, this.score), this.say, this.box);
    this.root = root;
  }

  #begin() {
    this.#rounds = null;
    this.#drawn = "";
    this.#on = true;
    this.#focus = true;
    this.switch.setAttribute("aria-checked", "true");
    this.#tell("");
    this.score.replaceChildren();
    this.ctx.cover((run) => this.#cover(run));
  }

  // Leave the game. The score stays visible.
  #leave(sentence = "") {
    const had = this.root.contains(document.activeElement);
    this.#on = false;
    this.#asked += 1;
    this.switch.setAttribute("aria-checked", "false");
    this.#hide(false);
    this.box.replaceChildren();
    this.#tell(sentence);
    this.ctx.cover(null);
    if (had) this.switch.focus();
  }

  /** @param {Run} run */
  #cover(run) {
    if (this.#rounds?.run !== run) {
      this.#asked += 1;
      this.#rounds = new Rounds(run);
    }
    return this.#rounds.look();
  }

  #tell(sentence) {
    if (this.say.textContent !== sentence) this.say.textContent = sentence;
  }

  // Hide the step's views while it is guessed.
  #hide(on) {
    this.root.closest(".dp-panes")?.classList.toggle("guessing", on);
  }

  update() {
    const rounds = this.#rounds;
    if (!this.#on || !rounds) return;
    // Leaving mounts the other views again, so it waits until they have been drawn.
    if (rounds.phase === "over") {
      this.score.replaceChildren(...scoreSaid(scoreOf(rounds.guesses)));
      return queueMicrotask(() => this.#on && this.#leave(overSaid(rounds)));
    }
    const key = `${rounds.run.id}:${rounds.phase}:${rounds.index}`;
    if (key === this.#drawn) return;
    this.#drawn = key;
    const had = this.#focus || this.root.contains(document.activeElement);
    this.#focus = false;
    this.#hide(rounds.phase !== "shown");
    this.score.replaceChildren(...scoreSaid(scoreOf(rounds.guesses)));
    if (rounds.phase === "guess") this.#drawGuess(rounds);
    else if (rounds.phase === "shown") this.#drawShown(rounds);
    else {
      this.#tell(WAITING);
      this.box.replaceChildren(this.#row());
    }
    const first = this.box.querySelector(".pd-first") ?? this.box.querySelector("button");
    if (had && first instanceof HTMLElement) first.focus();
  }

  select() {}

  clear() {
    this.#drawn = "";
  }

  #row(...buttons) {
    const leave = button(tr("Leave"), () => this.#leave(), { title: tr("Escape") });
    return el("div", { class: "dp-row pd-row" }, buttons, leave);
  }

  // The end of the text, and a gap for the next token.
  #textOf({ before: { text, accepted }, cover }) {
    const cut = text.length > SHOWN_BEFORE ? "…" : "";
    return el(
      "p",
      { class: "pd-text" },
      cut + textOfIds(cover, text.slice(-SHOWN_BEFORE)),
      accepted.length ? el("b", {}, textOfIds(cover, accepted)) : null,
      el("span", { class: "pd-gap", role: "img", "aria-label": tr("the next token") }, "?"),
    );
  }

  /** @param {Rounds} rounds */
  #drawGuess(rounds) {
    const { cover, step, index, before } = rounds;
    const offers = offersOf(cover, step);
    this.#choices = offers.map((id, i) =>
      el("input", {
        type: "radio",
        class: i ? "" : "pd-first",
        name: this.name,
        value: id,
        onchange: () => this.#chose(),
      }),
    );
    const labels = this.#choices.map((choice, i) =>
      el(
        "label",
        { class: "pd-offer" },
        choice,
        el("kbd", { "aria-hidden": "true" }, i + 1),
        el("span", {}, piece(cover, offers[i])),
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
      title: HINT,
      oninput: () => this.#wrote(),
    });
    const ask = told(tr("Step {n}: which [token] comes next?", { n: index + 1 }));
    this.box.replaceChildren(
      this.#textOf(rounds),
      ...(before.accepted.length ? [el("p", { class: "dp-note" }, ACCEPTED)] : []),
      el("fieldset", { class: "pd-offers" }, el("legend", {}, ask), labels),
      el("div", { class: "pd-line" }, this.#typed, el("p", { class: "dp-note" }, HINT)),
      this.#row(
        button(tr("Reveal"), () => this.#reveal(), { class: "dp-btn pd-go", title: tr("Enter") }),
        button(tr("Show it"), () => this.#show(null), { title: tr("Without a guess") }),
      ),
    );
    // The question is the group's legend, which screen readers read with the focus.
    this.#tell(passedSaid(rounds));
  }

  #chose() {
    this.#typed.value = "";
  }

  #wrote() {
    for (const choice of this.#choices) choice.checked = false;
  }

  /** @param {Rounds} rounds */
  #drawShown(rounds) {
    const { said: guess, written, index, run, cover } = rounds;
    const id = guess?.token_id;
    const other = id !== undefined && id !== written.token_id && run.status !== "running";
    const why = () => this.ctx.ask?.({ step: index, token_id: id });
    this.box.replaceChildren(
      this.#row(
        button(tr("Next"), () => this.#next(), {
          class: "dp-btn pd-go pd-first",
          title: tr("Enter"),
        }),
        other && this.ctx.ask
          ? button(tr("Why not “{token}”?", { token: piece(cover, id) }), why)
          : null,
      ),
    );
    this.#tell(revealSaid(rounds));
  }

  #next() {
    // A held key repeats faster than the stage is drawn.
    if (this.#rounds.phase !== "shown") return;
    this.#rounds.next();
    this.#again();
  }

  /** @param {Said | null} guess */
  #show(guess) {
    if (this.#rounds.phase !== "guess") return;
    this.#asked += 1;
    this.#rounds.reveal(guess);
    this.#again();
  }

  // Draw the stage again with the part that is visible now.
  #again() {
    this.ctx.cover((run) => this.#cover(run));
  }

  #reveal() {
    const { cover, step, phase } = this.#rounds;
    if (phase !== "guess") return;
    const chosen = this.#choices.find((choice) => choice.checked);
    const text = this.#typed.value;
    if (!chosen && !text.trim()) return this.#tell(CHOOSE);
    const found = chosen
      ? { candidate: step.candidates.find((c) => c.token_id === Number(chosen.value)) }
      : typedOf(cover, step, text);
    if (!found.candidate) return this.#typedUnknown(text, found);
    const { token_id, raw_logprob: logprob, rank } = found.candidate;
    this.#show({ name: piece(cover, token_id), token_id, logprob, rank });
  }

  /**
   * @param {string} text
   * @param {{ most?: number | null }} known
   */
  async #typedUnknown(text, { most }) {
    const { run, index, whole } = this.#rounds;
    const unknown = { name: visible(text), most };
    if (!this.oddsOf) return this.#show(unknown);
    const mine = ++this.#asked;
    this.#tell(ASKING);
    this.box.setAttribute("aria-busy", "true");
    const odds = await this.oddsOf({ ...run, ...whole }, index, text);
    this.box.removeAttribute("aria-busy");
    if (mine !== this.#asked) return;
    if ("error" in odds) return this.#show({ ...unknown, more: said(odds.error) });
    const { said: sentence, ...known } = odds;
    this.#show({ ...known, more: said(sentence) });
  }

  #press(event) {
    if (!this.#on || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target === this.#typed;
    const choice = typing ? undefined : this.#choices[Number(event.key) - 1];
    if (event.key === "Escape") this.#leave();
    else if (event.key === "Enter" && event.target.tagName === "INPUT") this.#reveal();
    else if (choice?.isConnected) {
      choice.checked = true;
      choice.focus();
      this.#chose();
    } else return;
    event.preventDefault();
  }
}

/**
 * @param {OddsOf | null} [oddsOf]
 * @returns {ViewSpec}
 */
export const predictWith = (oddsOf = null) => ({
  title: SWITCH,
  heading: false,
  covers: true,
  mount: (root, ctx) => new Predict(root, ctx, oddsOf),
});
