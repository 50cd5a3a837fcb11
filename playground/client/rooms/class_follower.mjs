// Keeps a class on its teacher's card: the class moves and sees answers together with the teacher.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { createRoomPanel, hasOwnRoom } from "./room_panel.mjs";

/** @import { LessonView } from "../lessons/lesson.mjs" */

/** The classroom panel of the open lesson, in step with the lesson's view. */
export class ClassFollower {
  /** @type {import("./room_panel.mjs").RoomPanel | null} */
  #panel = null;
  /** @type {LessonView | null} */
  #view = null;
  // The card the room last reported, and the card requested but not yet reported (0 for none).
  #card = 0;
  #revealed = false;
  #asked = 0;

  constructor() {
    this.box = el("div", { class: "ls-room" });
    // In presentation mode: the votes in the teacher's bar, and how latecomers join.
    this.votes = el("div", { class: "ls-votes" });
    this.strip = el("div", { class: "ls-strip" });
    this.bets = el("div", { class: "ls-class-bets", hidden: true });
    this.look = createButton(tr("What they bet"), () => this.#toggleBets(), {
      class: "dp-btn ls-look",
      "aria-expanded": "false",
    });
    this.screen = el("div", { class: "ls-class", hidden: true }, this.strip, this.look, this.bets);
    this.node = el("div", { class: "ls-class-panel" }, this.box, this.screen);
  }

  /**
   * Follow another lesson; a room that this browser opened for it is entered again.
   * @param {LessonView} view
   */
  showing(view) {
    if (view.lesson.about.name !== this.#view?.lesson.about.name) this.#closePanel();
    this.#view = view;
    if (!this.#panel && view.lesson.itself && hasOwnRoom(view.lesson.about.name)) this.toggle(view);
  }

  /**
   * Show or hide the panel of a lesson's room. An open room stays open.
   * @param {LessonView} view
   */
  toggle(view) {
    if (this.#panel) return this.#closePanel();
    this.#view = view;
    const { about, itself } = view.lesson;
    if (!itself) {
      this.box.replaceChildren(
        el(
          "p",
          { class: "dp-status bad", role: "alert" },
          tr("A class can bet on lessons that are on the shelf."),
        ),
      );
      return;
    }
    this.#panel = createRoomPanel(this.box, {
      lesson: about.name,
      language: about.language,
      cardNumber: Math.min(view.at + 1, view.cards.length),
      moved: (card, revealed) => this.#followRoom(card, revealed),
      asked: (card) => {
        this.#asked = card;
        this.#toggleBets(false);
      },
    });
    this.votes.replaceChildren(this.#panel.votes);
    this.strip.replaceChildren(this.#panel.strip);
    this.bets.replaceChildren(this.#panel.onScreen);
  }

  #closePanel() {
    this.#panel?.leave();
    this.#panel = null;
    this.#card = this.#asked = 0;
    this.screen.hidden = true;
    this.votes.replaceChildren();
    this.box.replaceChildren();
  }

  #toggleBets(open = this.bets.hidden) {
    this.bets.hidden = !open;
    this.look.setAttribute("aria-expanded", String(open));
  }

  /**
   * In presentation mode: show the bets in the revealed card, where they stand with the answer, or
   * put them back behind their button.
   * @param {Element | null} answer of the revealed card
   */
  placeBets(answer) {
    const inCard = answer !== null && this.#panel?.open === true;
    const place = inCard ? answer : this.screen;
    if (this.bets.parentElement === place) return;
    place.append(this.bets);
    this.look.hidden = inCard;
    this.#toggleBets(inCard);
  }

  /**
   * The room reported its card: follow it, unless a request for another card is still pending.
   * @param {number} card from 1
   * @param {boolean} revealed
   */
  #followRoom(card, revealed) {
    this.#card = card;
    this.#revealed = revealed;
    this.screen.hidden = false;
    if (this.#asked && card !== this.#asked) return;
    this.#asked = 0;
    if (this.#view?.at !== card - 1) this.#view?.go(card - 1, { focus: false });
    if (revealed) this.#view?.reveal({ focus: false });
  }

  /** Move the class to the teacher's card, or reveal the answer that the teacher has revealed. */
  lead() {
    if (!this.#panel?.open || !this.#view || this.#view.ended) return;
    const card = this.#view.at + 1;
    if (card === this.#card && !this.#asked) {
      if (this.#view.view?.revealed && !this.#revealed) this.#panel.reveal();
    } else if (card !== this.#asked) this.#panel.show(card);
  }
}
