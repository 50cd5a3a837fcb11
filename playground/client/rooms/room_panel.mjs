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

/** @import { Key } from "../lessons/bets.mjs" */
/** @import { Tally } from "./histogram.mjs" */
/** @import { RoomScene } from "./participant.mjs" */
/** @typedef {{ code: string, secret: string }} Room */

/**
 * What a teacher sees of the class.
 * @typedef {object} Figures
 * @property {number} card from 1
 * @property {number} here
 * @property {number} entered
 * @property {boolean} locked
 * @property {boolean} revealed
 * @property {Tally | null} tally
 * @property {string[]} words answers in words
 */

/**
 * Return whether this browser opened a classroom for a lesson, and may still be its teacher.
 * @param {string} lesson
 */
export function hasOwnRoom(lesson) {
  try {
    return localStorage.getItem(storageKey(lesson)) !== null;
  } catch {
    return false;
  }
}

/** @param {string} lesson */
const storageKey = (lesson) => `decoding-playground.room.${lesson}`;

/** The teacher's panel of one classroom. */
export class RoomPanel {
  #taught;
  /** @type {Room | null} */
  #room = null;
  /** @type {RoomScene | null} */
  #scene = null;
  /** @type {Figures | null} */
  #figures = null;
  #leave = () => {};

  node = el("section", { class: "rm-panel", "aria-label": tr("A room for the class") });
  says = el("p", { class: "rm-status", role: "status" });
  counts = el("p", { class: "rm-counts" });
  votes = el("p", { class: "rm-votes" });
  strip = el("div", { class: "rm-strip" });
  where = el("p", { class: "rm-where" });
  answers = el("div", {});
  onScreen = el("div", { class: "rm-on-screen" });
  picture = el("div", { class: "rm-picture" });
  back = createButton(tr("← Back"), () => this.#showNext(-1));
  next = createButton(tr("Next →"), () => this.#showNext(1), { class: "dp-btn rm-next" });
  tell = createButton(tr("Reveal"), () => this.reveal(), { class: "dp-btn rm-go" });
  lock = createButton(
    tr("Lock"),
    () => this.#sendAction(this.#figures?.locked ? "unlock" : "lock"),
    { title: tr("Nobody new can join; everyone here stays") },
  );
  close = createButton(tr("Close the room"), () => this.#confirmClose());
  sure = el("span", { class: "rm-sure", hidden: true });
  bets = el(
    "details",
    { class: "rm-bets" },
    el("summary", {}, tr("What they bet, and what is right")),
    this.answers,
  );

  /**
   * @param {HTMLElement} root
   * @param {Taught} taught
   */
  constructor(root, taught) {
    this.#taught = taught;
    root.replaceChildren(this.node);
    const known = this.#loadRoom();
    if (known) this.#enterRoom(known);
    else this.#showClosed();
  }

  /** @returns {Room | null} */
  #loadRoom() {
    try {
      return JSON.parse(localStorage.getItem(storageKey(this.#taught.lesson)) ?? "null");
    } catch {
      return null;
    }
  }

  /** @param {Room | null} room */
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
    this.votes.replaceChildren();
    this.strip.replaceChildren();
    const open = createButton(tr("Open a room"), () => this.#openRoom(open), {
      class: "dp-btn rm-go",
    });
    this.node.replaceChildren(
      el(
        "p",
        { class: "rm-about" },
        tr(
          "Your class joins with a code and bets on the cards. You see their bets live and reveal the answer. Anonymous; nothing is stored.",
        ),
      ),
      el("p", { class: "rm-acts" }, open),
      this.says,
    );
    this.#say(said);
  }

  /** @param {HTMLButtonElement} pressed */
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

  /**
   * Enter an open room: a new one, or one that this browser opened before.
   * @param {Room} room
   */
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
    return new URL(`room/${this.#room?.code}`, document.baseURI).href;
  }

  /** @param {RoomScene} scene */
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
    this.picture.replaceChildren();
    this.strip.replaceChildren(
      el("span", { class: "rm-address" }, this.address),
      el("b", {}, this.#room?.code),
    );
    this.node.replaceChildren(
      el(
        "div",
        { class: "rm-top" },
        el(
          "div",
          { class: "rm-join" },
          el("p", { class: "rm-address" }, this.address),
          el("p", { class: "rm-code" }, this.#room?.code),
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
      const draw = () => drawQrCode(rows, tr("QR code of {address}", { address }));
      this.picture.replaceChildren(draw());
      this.strip.prepend(draw());
    } catch {
      // The QR code is optional: the page also shows the address and the code.
    }
  }

  /** @param {Figures} figures */
  #showFigures(figures) {
    this.#figures = figures;
    if (!this.#scene) return;
    const { here, entered, tally, locked, words, revealed } = figures;
    const { before, after, card } = this.#scene;
    const { bet } = before;
    this.counts.replaceChildren(
      el("b", {}, tr("{n} here", { n: here })),
      ...(tally ? [" · ", el("b", {}, tr("{n} have bet", { n: tally.votes }))] : []),
      ` · ${tr("{n} entered", { n: entered })}`,
    );
    this.votes.textContent = this.counts.textContent;
    this.lock.textContent = locked ? tr("Unlock") : tr("Lock");
    this.lock.setAttribute("aria-pressed", String(locked));
    if (!tally || !bet || figures.card !== card) return;
    /** @param {Key | null} [key] */
    const drawn = (key) => [
      createHistogram(bet, tally, key),
      ...(words.length ? [createWordList(words)] : []),
    ];
    this.answers.replaceChildren(...drawn(after.key));
    // The class sees this on the big screen, so the solution only comes with the reveal.
    this.onScreen.replaceChildren(...drawn(revealed ? after.key : undefined));
  }

  /** @param {number} by */
  #showNext(by) {
    if (this.#scene) this.show(this.#scene.card + by);
  }

  /**
   * Move the class to a card.
   * @param {number} card from 1
   */
  show(card) {
    this.#taught.asked?.(card);
    return this.#sendAction("show", card);
  }

  /** Reveal the card's answer to the class. */
  reveal() {
    return this.#sendAction("reveal", this.#scene?.card);
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

  /**
   * @param {string} act
   * @param {number} [card]
   */
  async #sendAction(act, card) {
    if (!this.#room) return;
    try {
      await this.#postAsTeacher({ act, ...(card ? { card } : {}) });
      if (this.says.classList.contains("bad")) this.#say("");
    } catch (error) {
      this.#say(/** @type {Error} */ (error).message, true);
    }
  }

  /** @param {Record<string, any>} asked */
  #postAsTeacher(asked) {
    return postToRoom(`room/${this.#room?.code}/teach`, asked, this.#room?.secret);
  }

  /** @param {string} text */
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

/** @param {string[]} words */
const createWordList = (words) =>
  el(
    "ul",
    { class: "rm-words" },
    words.map((text) => el("li", {}, makeVisible(text))),
  );

const localOnlyNote = () =>
  tr(
    "Only this computer can open this address. For a class, start the playground with PLAYGROUND_HOST=0.0.0.0 and PLAYGROUND_HOSTS set to this machine’s name or address, and open the page there.",
  );
