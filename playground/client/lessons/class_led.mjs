// A class that bets along: it is taken to the card that its teacher is on, and sees the answer with the teacher.
import { button, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { roomPanel, taughtHere } from "./room.mjs";

export class ClassLed {
  /** @type {import("./room.mjs").RoomPanel | null} */
  #panel = null;
  /** @type {import("./lesson.mjs").LessonView | null} */
  #view = null;
  // Where the class is as far as the room has said, and where it is on its way to, 0 for nowhere.
  #card = 0;
  #revealed = false;
  #asked = 0;

  constructor() {
    this.box = el("div", { class: "ls-room" });
    this.brief = el("div", { class: "ls-brief" });
    this.bets = el("div", { class: "ls-their-bets", hidden: true });
    this.look = button(tr("What they bet"), () => this.#toggleBets(), {
      class: "dp-btn ls-look",
      "aria-expanded": "false",
    });
    // On the whole screen: the code, how many there are, and what they bet.
    this.screen = el("div", { class: "ls-class", hidden: true }, this.brief, this.look, this.bets);
    this.node = el("div", { class: "ls-led" }, this.box, this.screen);
  }

  /** Another lesson is shown: a room of its own that was opened here goes on. */
  showing(view) {
    if (view.lesson.about.name !== this.#view?.lesson.about.name) this.#close();
    this.#view = view;
    if (!this.#panel && view.lesson.itself && taughtHere(view.lesson.about.name)) this.toggle(view);
  }

  /** Show or put away the panel of a lesson's room; a room that is open stays open. */
  toggle(view) {
    if (this.#panel) return this.#close();
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
    this.#panel = roomPanel(this.box, {
      lesson: about.name,
      language: about.language,
      cardNumber: Math.min(view.at + 1, view.cards.length),
      moved: (card, revealed) => this.#moved(card, revealed),
      asked: (card) => {
        this.#asked = card;
        this.bets.hidden = true;
      },
    });
    this.brief.replaceChildren(this.#panel.brief);
    this.bets.replaceChildren(this.#panel.onScreen);
  }

  #close() {
    this.#panel?.leave();
    this.#panel = null;
    this.#card = this.#asked = 0;
    this.screen.hidden = true;
    this.box.replaceChildren();
  }

  #toggleBets() {
    this.bets.hidden = !this.bets.hidden;
    this.look.setAttribute("aria-expanded", String(!this.bets.hidden));
  }

  // The room has spoken: this page goes where the class is, unless the class is on its way elsewhere.
  #moved(card, revealed) {
    this.#card = card;
    this.#revealed = revealed;
    this.screen.hidden = false;
    if (this.#asked && card !== this.#asked) return;
    this.#asked = 0;
    if (this.#view.at !== card - 1) this.#view.go(card - 1, { focus: false });
    if (revealed) this.#view.reveal({ focus: false });
  }

  /** The teacher has gone somewhere or looked at an answer: so does the class. */
  lead() {
    if (!this.#panel?.open || !this.#view || this.#view.ended) return;
    const card = this.#view.at + 1;
    if (card === this.#card && !this.#asked) {
      if (this.#view.view?.revealed && !this.#revealed) this.#panel.reveal();
    } else if (card !== this.#asked) this.#panel.show(card);
  }
}
