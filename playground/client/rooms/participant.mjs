// The page of a participant: the class's current card, the bet on it, and the result.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { CardView } from "../lessons/card.mjs";
import { createHistogram } from "./histogram.mjs";
import { listenToRoom } from "./room_events.mjs";
import { postToRoom } from "./room_requests.mjs";

/** @import { CardAfter, CardBefore } from "../lessons/card.mjs" */
/** @import { Tally } from "./histogram.mjs" */
/** @typedef {{ card: number, answer: any }} OwnBet */

/**
 * What a class sees.
 * @typedef {object} RoomScene
 * @property {string} title of the lesson
 * @property {number} card from 1
 * @property {number} cards
 * @property {boolean} revealed
 * @property {CardBefore} before
 * @property {CardAfter} after for the class once it is revealed
 * @property {Tally | null} [tally] once it is revealed
 */

/** A participant's view of a classroom. */
export class ParticipantView {
  /** @type {RoomScene | null} the scene shown */
  #scene = null;
  /** @type {CardView | null} */
  #view = null;
  /** The bet that the server has counted, as JSON. */
  #sent = "";
  /** @type {OwnBet | null} */
  #mine = null;

  /**
   * @param {HTMLElement} root
   * @param {string} code of the room
   */
  constructor(root, code) {
    this.code = code;
    this.title = el("h1", { class: "rm-lesson" });
    this.where = el("h2", { class: "ls-where" });
    this.body = el("div", { class: "ls-body" });
    this.go = createButton(tr("Bet"), () => this.#sendBet(), { class: "dp-btn rm-go" });
    this.acts = el("p", { class: "rm-acts", hidden: true }, this.go);
    this.says = el("p", { class: "rm-status", role: "status" });
    this.verdict = el("p", { class: "dp-sr", role: "status" });
    this.line = el("p", { class: "rm-line", role: "alert" });
    root.replaceChildren(
      el("header", { class: "rm-head" }, this.title, this.where),
      this.line,
      this.body,
      this.acts,
      this.says,
      this.verdict,
    );
    this.leave = listenToRoom(code, {
      heard: (name, data) => (name === "mine" ? this.#setOwnBet(data) : this.#showScene(data)),
      line: (connected) => {
        this.line.textContent = connected ? "" : tr("The connection is lost; trying again …");
      },
      over: (sentence) => this.#showEnd(sentence),
    });
  }

  /** @param {OwnBet} mine */
  #setOwnBet(mine) {
    this.#mine = mine;
  }

  /** @param {RoomScene} scene */
  #showScene(scene) {
    const before = this.#scene;
    this.#scene = scene;
    const moved = before?.card !== scene.card;
    if (moved) this.#drawCard(scene);
    if (scene.revealed && (moved || !before.revealed)) this.#revealAnswer(scene);
  }

  /** @param {RoomScene} scene */
  #drawCard({ title, card, cards, before }) {
    document.title = title;
    this.title.textContent = title;
    this.where.textContent = tr("Card {n} of {total}", { n: card, total: cards });
    const was = this.body.contains(document.activeElement);
    const view = new CardView(before, { bet: () => this.#updateBet() });
    this.#view = view;
    this.#sent = "";
    if (this.#mine?.card === card && view.question) {
      this.#sent = JSON.stringify(this.#mine.answer);
      view.question.set(this.#mine.answer);
    }
    this.body.replaceChildren(view.node);
    this.acts.hidden = !before.bet;
    this.verdict.textContent = `${this.where.textContent}: ${before.title}`;
    this.#say(before.bet ? "" : tr("This card asks nothing. Look at the board."));
    this.#updateBet();
    if (was) this.#focus();
    if (!was) scrollTo({ top: 0 });
  }

  #focus() {
    const heading = this.body.querySelector("h3");
    heading?.setAttribute("tabindex", "-1");
    heading?.focus();
  }

  #updateBet() {
    const chosen = this.#view?.answer ?? null;
    const counts = chosen !== null && JSON.stringify(chosen) === this.#sent;
    this.go.disabled = chosen === null || counts;
    this.go.textContent = counts
      ? tr("✓ Your bet is in")
      : this.#sent
        ? tr("Change my bet")
        : tr("Bet");
    if (counts) this.#say(tr("You can change it until the answer is shown."));
    else if (this.#sent) this.#say(tr("Not sent yet: your earlier bet counts."));
  }

  async #sendBet() {
    if (!this.#scene || !this.#view) return;
    const { card } = this.#scene;
    const { answer } = this.#view;
    this.go.disabled = true;
    try {
      await postToRoom(`room/${this.code}/vote`, { card, answer });
      if (this.#scene.card !== card) return;
      this.#mine = { card, answer };
      this.#sent = JSON.stringify(answer);
      this.#updateBet();
    } catch (error) {
      if (this.#scene.card !== card) return;
      this.#updateBet();
      this.#say(/** @type {Error} */ (error).message, true);
    }
  }

  /** @param {RoomScene} scene */
  #revealAnswer({ after, tally, before }) {
    this.acts.hidden = true;
    let view = this.#view;
    if (!view) return;
    // An answer that was chosen but not sent does not count, so the card is reset.
    if (view.question && JSON.stringify(view.answer) !== this.#sent) view = this.#resetCard(before);
    view.reveal(after, {}, { focus: false });
    this.#say("");
    if (tally && before.bet) {
      const heading = el("h4", { class: "rm-class" }, tr("What the class bet"));
      this.body.append(el("section", {}, heading, createHistogram(before.bet, tally, after.key)));
    }
    this.verdict.textContent = view.verdict.textContent;
  }

  /** @param {CardBefore} before */
  #resetCard(before) {
    const view = new CardView(before);
    this.#view = view;
    if (this.#sent) view.question?.set(JSON.parse(this.#sent));
    this.body.replaceChildren(view.node);
    return view;
  }

  /** @param {string} text */
  #say(text, bad = false) {
    this.says.textContent = text;
    this.says.classList.toggle("bad", bad);
  }

  /** @param {string} sentence */
  #showEnd(sentence) {
    this.line.textContent = "";
    this.acts.hidden = true;
    this.where.textContent = "";
    this.body.replaceChildren(
      el("p", { class: "rm-ended" }, sentence),
      el("p", {}, el("a", { href: "./room" }, tr("Enter another room"))),
    );
    this.#say("");
  }
}

const root = document.getElementById("room");
if (root) {
  new ParticipantView(root, location.pathname.split("/").pop() ?? "");
}
