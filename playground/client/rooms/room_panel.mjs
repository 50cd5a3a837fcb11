// The teacher's panel of a classroom: the code, the participants, their bets and the controls.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { makeVisible } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { drawQrCode } from "../shell/qr.mjs";
import { createHistogram } from "./histogram.mjs";
import { listenToRoom } from "./room_events.mjs";
import { postToRoom } from "./room_requests.mjs";

const LOCAL_HOST = /^(localhost|127\.|\[::1\])/;

/**
 * The lesson that a classroom is opened for, and its callbacks.
 * @typedef {object} Taught
 * @property {string} lesson name of a lesson of the shelf
 * @property {string} language
 * @property {number} [cardNumber] the first card, from 1
 * @property {(card: number) => void} [asked] called when the teacher requests another card
 * @property {(card: number, revealed: boolean) => void} [moved] called when the class is at another
 *   card, or its answer is revealed
 */

/** Return whether this browser opened a classroom for a lesson, and may still be its teacher. */
export function hasOwnRoom(lesson) {
  try {
    return localStorage.getItem(storageKey(lesson)) !== null;
  } catch {
    return false;
  }
}

const storageKey = (lesson) => `decoding-playground.room.${lesson}`;

/** The teacher's panel of one classroom. */
export class RoomPanel {
  #taught;
  /** @type {{ code: string, secret: string } | null} */
  #room = null;
  #scene = null;
  #figures = null;
  #leave = () => {};

  /**
   * @param {HTMLElement} root
   * @param {Taught} taught
   */
  constructor(root, taught) {
    this.#taught = taught;
    this.node = el("section", { class: "rm-panel", "aria-label": tr("A room for the class") });
    this.says = el("p", { class: "rm-status", role: "status" });
    this.#createParts();
    root.replaceChildren(this.node);
    const known = this.#loadRoom();
    if (known) this.#enterRoom(known);
    else this.#showClosed();
  }

  #createParts() {
    this.counts = el("p", { class: "rm-counts" });
    this.brief = el("p", { class: "rm-brief" });
    this.where = el("p", { class: "rm-where" });
    this.answers = el("div", {});
    this.onScreen = el("div", { class: "rm-on-screen" });
    this.back = createButton(tr("← Back"), () => this.show(this.#scene.card - 1));
    this.next = createButton(tr("Next →"), () => this.show(this.#scene.card + 1), {
      class: "dp-btn rm-next",
    });
    this.tell = createButton(tr("Reveal"), () => this.reveal(), { class: "dp-btn rm-go" });
    this.lock = createButton(
      tr("Lock"),
      () => this.#sendAction(this.#figures.locked ? "unlock" : "lock"),
      {
        title: tr("Nobody new comes in; whoever is here stays"),
      },
    );
    this.close = createButton(tr("Close the room"), () => this.#confirmClose());
    this.sure = el("span", { class: "rm-sure", hidden: true });
    this.bets = el(
      "details",
      { class: "rm-bets" },
      el("summary", {}, tr("What they bet, and what is right")),
      this.answers,
    );
  }

  #loadRoom() {
    try {
      return JSON.parse(localStorage.getItem(storageKey(this.#taught.lesson)));
    } catch {
      return null;
    }
  }

  #saveRoom(room) {
    try {
      if (room) localStorage.setItem(storageKey(this.#taught.lesson), JSON.stringify(room));
      else localStorage.removeItem(storageKey(this.#taught.lesson));
    } catch {
      // Without storage only this page knows the room.
    }
  }

  // Without a room: show what a room is for, and the button that opens one.
  #showClosed(said = "") {
    this.#room = this.#scene = this.#figures = null;
    this.brief.replaceChildren();
    const open = createButton(tr("Open a room"), () => this.#openRoom(open), {
      class: "dp-btn rm-go",
    });
    this.node.replaceChildren(
      el(
        "p",
        { class: "rm-about" },
        tr(
          "Your class joins by a code and bets on the cards; you see what they bet, and reveal. No names, nothing is kept.",
        ),
      ),
      el("p", { class: "rm-acts" }, open),
      this.says,
    );
    this.#say(said);
  }

  async #openRoom(pressed) {
    const { lesson, language, cardNumber = 1 } = this.#taught;
    pressed.disabled = true;
    try {
      const room = await postToRoom("rooms", { lesson, language, card: cardNumber });
      this.#saveRoom(room);
      this.#enterRoom(room);
    } catch (error) {
      pressed.disabled = false;
      this.#say(/** @type {Error} */ (error).message, true);
    }
  }

  // Enter an open room: a new one, or one that this browser opened before.
  #enterRoom(room) {
    this.#room = room;
    this.#say(tr("Entering the room …"));
    this.node.replaceChildren(this.says);
    this.#leave = listenToRoom(
      room.code,
      {
        heard: (name, data) => (name === "scene" ? this.#showScene(data) : this.#showFigures(data)),
        line: (connected) =>
          this.#say(connected ? "" : tr("The connection is lost; trying again …"), !connected),
        over: (sentence) => {
          this.#saveRoom(null);
          this.#showClosed(sentence);
        },
      },
      room.secret,
    );
  }

  get open() {
    return this.#scene !== null;
  }

  get address() {
    return new URL(`room/${this.#room.code}`, document.baseURI).href;
  }

  #showScene(scene) {
    if (!this.#scene) this.#showOpened();
    this.#scene = scene;
    const { card, cards, before, revealed } = scene;
    this.where.replaceChildren(
      tr("Card {n} of {total}", { n: card, total: cards }),
      " · ",
      el("b", {}, before.title),
    );
    this.back.disabled = card === 1;
    this.next.disabled = card === cards;
    this.tell.disabled = revealed;
    this.tell.textContent = revealed ? tr("✓ Revealed") : tr("Reveal");
    this.bets.hidden = !before.bet;
    this.bets.open = revealed;
    this.#taught.moved?.(card, revealed);
  }

  #showOpened() {
    this.picture = el("div", { class: "rm-picture" });
    const { code } = this.#room;
    this.node.replaceChildren(
      el(
        "div",
        { class: "rm-top" },
        el(
          "div",
          { class: "rm-join" },
          el("p", { class: "rm-address" }, this.address),
          el("p", { class: "rm-code" }, code),
          this.counts,
          LOCAL_HOST.test(location.host) ? el("p", { class: "rm-note" }, localOnlyNote()) : null,
        ),
        this.picture,
      ),
      this.where,
      el(
        "p",
        { class: "rm-acts" },
        this.back,
        this.tell,
        this.next,
        this.lock,
        this.close,
        this.sure,
      ),
      this.bets,
      this.says,
    );
    this.#drawQr();
  }

  async #drawQr() {
    const { address } = this;
    try {
      const { rows } = await this.#postAsTeacher({ act: "qr", address });
      this.picture.replaceChildren(drawQrCode(rows, tr("QR code of {address}", { address })));
    } catch {
      // The QR code is optional: the page also shows the address and the code.
    }
  }

  #showFigures(figures) {
    this.#figures = figures;
    const { here, entered, tally, locked, words, revealed } = figures;
    const { before, after, card } = this.#scene;
    this.counts.replaceChildren(
      el("b", {}, tr("{n} here", { n: here })),
      ...(tally ? [" · ", el("b", {}, tr("{n} have bet", { n: tally.votes }))] : []),
      ` · ${tr("{n} entered", { n: entered })}`,
    );
    this.brief.replaceChildren(el("b", {}, this.#room.code), ` · ${this.counts.textContent}`);
    this.lock.textContent = locked ? tr("Unlock") : tr("Lock");
    this.lock.setAttribute("aria-pressed", String(locked));
    if (!tally || figures.card !== card) return;
    const drawn = (key) => [
      createHistogram(before.bet, tally, key),
      ...(words.length ? [createWordList(words)] : []),
    ];
    this.answers.replaceChildren(...drawn(after.key));
    // The class sees this on the big screen, so the solution only comes with the reveal.
    this.onScreen.replaceChildren(...drawn(revealed ? after.key : undefined));
  }

  /** Move the class to a card, from 1. */
  show(card) {
    this.#taught.asked?.(card);
    return this.#sendAction("show", card);
  }

  /** Reveal the card's answer to the class. */
  reveal() {
    return this.#sendAction("reveal", this.#scene.card);
  }

  #confirmClose() {
    this.close.hidden = true;
    this.sure.hidden = false;
    const stay = createButton(tr("Keep it open"), () => {
      this.sure.hidden = true;
      this.close.hidden = false;
      this.close.focus();
    });
    const end = createButton(tr("Close it for everybody"), () => this.#sendAction("close"), {
      class: "dp-btn rm-end",
    });
    this.sure.replaceChildren(end, stay);
    stay.focus();
  }

  async #sendAction(act, card) {
    if (!this.#room) return;
    try {
      await this.#postAsTeacher({ act, ...(card ? { card } : {}) });
      if (this.says.classList.contains("bad")) this.#say("");
    } catch (error) {
      this.#say(/** @type {Error} */ (error).message, true);
    }
  }

  #postAsTeacher(asked) {
    return postToRoom(`room/${this.#room.code}/teach`, asked, this.#room.secret);
  }

  #say(text, bad = false) {
    this.says.textContent = text;
    this.says.classList.toggle("bad", bad);
  }

  /** Stop listening; the room stays open. */
  leave() {
    this.#leave();
  }
}

/**
 * Create the panel of a lesson's classroom.
 * @param {HTMLElement} root
 * @param {Taught} taught
 */
export const createRoomPanel = (root, taught) => new RoomPanel(root, taught);

const createWordList = (words) =>
  el(
    "ul",
    { class: "rm-words" },
    words.map((text) => el("li", {}, makeVisible(text))),
  );

const localOnlyNote = () =>
  tr(
    "This address is of this machine alone. For a class, start the playground with PLAYGROUND_HOST=0.0.0.0 and PLAYGROUND_HOSTS set to this machine’s name or address, and open the page under that.",
  );
