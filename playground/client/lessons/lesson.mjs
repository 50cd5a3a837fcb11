// A lesson in progress: one card at a time, stored bets, and the score at the end.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { isRight } from "./bets.mjs";
import { CardView } from "./card.mjs";

/** @import { CardAfter, CardBefore } from "./card.mjs" */

/**
 * What a lesson needs from the tab around it.
 * @typedef {object} Around
 * @property {Omit<import("./card.mjs").Place, "key">} place
 * @property {() => void} moved called when another card or its answer is shown
 * @property {(form: any) => void} open puts a form into its tab
 * @property {() => (Node | string)[]} after returns the nodes below the score
 */

/** @typedef {{ before: CardBefore, after: CardAfter }} LessonCard */

/**
 * A lesson, as the server sends it.
 * @typedef {object} Lesson
 * @property {{ name: string, title: string, summary: string, language: string }} about
 * @property {LessonCard[]} cards
 * @property {Record<string, Recorded>} runs by name
 * @property {boolean} [itself] whether it is a lesson of this playground, whose bets are stored
 */

/** @typedef {{ answer: any }} StoredBet */

/** @param {Lesson} lesson */
const storageKey = (lesson) => `decoding-playground.lesson.${lesson.about.name}`;

/**
 * @param {Lesson} lesson
 * @returns {Record<number, StoredBet>} by card number
 */
function loadBets(lesson) {
  try {
    return JSON.parse(localStorage.getItem(storageKey(lesson)) ?? "{}") ?? {};
  } catch {
    return {};
  }
}

/** The view of one lesson. */
export class LessonView {
  /** Bets by card number. */
  #bets;
  #around;
  at = 0;

  /**
   * @param {Lesson} lesson
   * @param {Around} around
   */
  constructor(lesson, around) {
    this.lesson = lesson;
    this.#around = around;
    this.#bets = lesson.itself ? loadBets(lesson) : {};
    this.where = el("p", { class: "ls-where" });
    this.body = el("div", { class: "ls-body" });
    this.back = createButton(tr("← Back"), () => this.go(this.at - 1), { class: "dp-btn ls-back" });
    this.next = createButton(tr("Next →"), () => this.go(this.at + 1), { class: "dp-btn ls-next" });
    this.dots = el("ol", { class: "ls-dots" });
    this.said = el("p", { class: "dp-sr", role: "status" });
    this.head = el("header", { class: "ls-head" }, el("h2", {}, lesson.about.title), this.where);
    this.node = el(
      "section",
      { class: "ls-lesson", "aria-label": lesson.about.title },
      this.head,
      this.body,
      el("nav", { class: "ls-foot", "aria-label": tr("Cards") }, this.back, this.dots, this.next),
      this.said,
    );
  }

  get cards() {
    return this.lesson.cards;
  }

  get ended() {
    return this.at >= this.cards.length;
  }

  /**
   * Show a card, from 0; past the last one the score.
   * @param {number} at
   * @param {{ focus?: boolean }} [how]
   */
  go(at, { focus = true } = {}) {
    this.at = Math.max(0, Math.min(this.cards.length, at));
    this.view = this.ended ? null : this.#createCard(this.cards[this.at]);
    this.body.replaceChildren(this.view?.node ?? this.#createScore());
    // In presentation mode the previous card may have been scrolled.
    this.body.scrollTop = 0;
    this.where.textContent = this.ended
      ? tr("Done")
      : tr("Card {n} of {total}", { n: this.at + 1, total: this.cards.length });
    this.back.toggleAttribute("disabled", this.at === 0);
    this.next.toggleAttribute("disabled", this.ended);
    this.#drawDots();
    if (focus) {
      const heading = this.body.querySelector("h3");
      heading?.setAttribute("tabindex", "-1");
      heading?.focus({ preventScroll: true });
    }
    this.#around.moved();
  }

  /** @param {LessonCard} card */
  #createCard({ before }) {
    const { place, open } = this.#around;
    return new CardView(before, {
      place: { ...place, key: `lesson-${before.number}` },
      runs: this.lesson.runs,
      ask: () => this.reveal(),
      next: () => this.go(this.at + 1),
      open,
    });
  }

  /** Reveal the answer of the current card, and store the bet. */
  reveal({ focus = true } = {}) {
    if (!this.view || this.view.revealed) return;
    const { after, before } = this.cards[this.at];
    this.view.reveal(after, this.lesson.runs, { focus });
    if (before.bet) {
      this.#bets[before.number] = { answer: this.view.answer };
      this.#saveBets();
    }
    this.said.textContent = this.view.verdict.textContent;
    this.#drawDots();
    this.#around.moved();
  }

  #saveBets() {
    if (!this.lesson.itself) return;
    try {
      localStorage.setItem(storageKey(this.lesson), JSON.stringify(this.#bets));
    } catch {
      // Without storage the bets last as long as the page.
    }
  }

  // The results of all bets that are marked; free text is not.
  get bets() {
    return this.cards
      .filter(({ before }) => before.bet && before.bet.kind !== "text")
      .map(({ before, after }) => {
        const stored = this.#bets[before.number];
        const { bet } = before;
        const { key } = after;
        const right = stored && bet && key ? isRight(bet, key, stored.answer) : undefined;
        return { number: before.number, right };
      });
  }

  #drawDots() {
    const bets = new Map(this.bets.map((bet) => [bet.number, bet.right]));
    const dots = this.cards.map(({ before }, i) => {
      const right = bets.get(before.number);
      const sign = right === undefined ? "" : right ? " ✓" : right === false ? " ✗" : " ·";
      const words = tr("Card {n}: {title}", { n: i + 1, title: before.title });
      const result = right === undefined ? "" : `, ${resultText(right)}`;
      const dot = createButton(`${i + 1}${sign}`, () => this.go(i), {
        class: "dp-btn ls-dot",
        "aria-label": words + result,
        "aria-current": i === this.at ? "step" : null,
        title: before.title,
      });
      return el("li", {}, dot);
    });
    this.dots.replaceChildren(...dots);
  }

  #createScore() {
    const { bets } = this;
    const done = bets.filter((bet) => bet.right !== undefined);
    const right = done.filter((bet) => bet.right).length;
    const again = () => {
      this.#bets = {};
      this.#saveBets();
      this.go(0);
    };
    return el(
      "article",
      { class: "ls-card ls-end" },
      el("h3", { class: "ls-title" }, tr("That was the lesson")),
      el(
        "p",
        { class: "ls-score" },
        tr("{right} of {done} bets right; {left} left out.", {
          right,
          done: done.length,
          left: bets.length - done.length,
        }),
      ),
      el(
        "p",
        { class: "dp-note" },
        tr(
          "A bet that was wrong is worth more than one that was right: now you know what you believed.",
        ),
      ),
      el("div", { class: "ls-after" }, this.#around.after()),
      el("p", { class: "ls-acts" }, createButton(tr("Once more"), again)),
    );
  }
}

// An answer seen without a bet is neither right nor wrong.
/** @param {boolean | null} right */
const resultText = (right) =>
  right ? tr("right") : right === false ? tr("not right") : tr("seen");
