// One lesson card: the situation, the bet and the reveal. The page and a classroom share it.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { createQuestion, isRight } from "./bets.mjs";
import { createCardContext } from "./card_context.mjs";
import { renderTree } from "./markdown.mjs";

/** @import { Bet, Key } from "./bets.mjs" */
/** @import { Scene } from "./card_context.mjs" */
/** @import { Tree } from "./markdown.mjs" */

/**
 * A card before the bet.
 * @typedef {object} CardBefore
 * @property {number} number
 * @property {string} title
 * @property {string} hide
 * @property {Tree[]} situation
 * @property {Scene[]} scenes
 * @property {Bet | null} bet
 */

/**
 * A card after the bet.
 * @typedef {object} CardAfter
 * @property {Tree[]} reveal
 * @property {Tree[]} why
 * @property {Tree[]} turn
 * @property {string} myth
 * @property {Key | null} key
 * @property {any} opens the form that the card opens in a tab, null for none
 */

/**
 * The store and stages that show the runs of a card.
 * @typedef {object} Place
 * @property {import("../../../visualizers/stage/recordings.mjs").Recordings} recordings
 * @property {import("../../../visualizers/stage/stage.mjs").Stages} stages
 * @property {string} key of this card's stages
 * @property {string[]} more views in addition to the card's, such as questions to the server
 * @property {(name: string, data?: unknown) => void} trigger
 */

const NO_PLACE = /** @type {any} */ (null);

/** A card on the page, first with its bet, then with its answer. */
export class CardView {
  #card;
  #place;
  #runs;
  #acts;

  /**
   * @param {CardBefore} card
   * @param {object} given
   * @param {Place} [given.place]
   * @param {Record<string, Recorded>} [given.runs] by name, if they are known already
   * @param {(answer: any) => void} [given.bet] called when an answer is chosen
   * @param {() => void} [given.ask] called to reveal the answer
   * @param {(form: any) => void} [given.open] puts a form into its tab
   * @param {() => void} [given.next] shows the next card
   */
  constructor(card, { place = NO_PLACE, runs = {}, bet, ask, open, next } = {}) {
    this.#card = card;
    this.#place = place;
    this.#runs = runs;
    this.#acts = { bet, ask, open, next };
    this.revealed = false;
    this.question = card.bet && createQuestion(card.bet, () => this.#updateAnswer());
    this.go = createButton(card.bet ? tr("Bet and see") : tr("See what happened"), () => ask?.(), {
      class: "dp-btn ls-go",
      type: "submit",
    });
    this.without = createButton(tr("See without a bet"), () => ask?.(), {
      class: "dp-btn ls-skip-bet",
    });
    this.verdict = el("p", { class: "ls-verdict", tabindex: -1, hidden: true });
    this.told = el("div", { class: "ls-answer" });
    this.scenes = el("div", { class: `ls-scenes n${card.scenes.length}` });
    const acts = ask
      ? el("p", { class: "ls-acts" }, this.go, card.bet ? this.without : null)
      : null;
    this.node = el(
      "article",
      { class: "ls-card", "aria-label": card.title },
      el("h3", { class: "ls-title" }, card.title),
      el("div", { class: "ls-situation" }, renderTree(card.situation)),
      el(
        "div",
        { class: "ls-both" },
        el("div", { class: "ls-words" }, this.#createForm(acts), this.verdict, this.told),
        this.scenes,
      ),
    );
    this.#updateAnswer();
    this.#drawContext();
  }

  /** @param {Content} acts */
  #createForm(acts) {
    const { bet } = this.#card;
    /** @param {Event} event */
    const submit = (event) => {
      event.preventDefault();
      if (this.answer !== null || !bet) this.#acts.ask?.();
    };
    const parts = bet
      ? el(
          "fieldset",
          { class: `ls-bet ${bet.kind}` },
          el("legend", {}, renderTree(bet.question)),
          this.question?.node,
        )
      : null;
    return el("form", { class: "ls-form", onsubmit: submit }, parts, acts);
  }

  get answer() {
    return this.question?.answer() ?? null;
  }

  #updateAnswer() {
    const ready = !this.#card.bet || this.answer !== null;
    this.go.toggleAttribute("disabled", !ready);
    if (ready && this.#card.bet && !this.revealed) this.#acts.bet?.(this.answer);
  }

  // Show the text before the step, or the whole run if the card hides nothing.
  #drawContext() {
    const { hide, scenes } = this.#card;
    const drawn = scenes.map((scene, i) => {
      if (hide === "nothing" && this.#runs[scene.run])
        return this.#createStage(scene, i, this.#runs);
      return el(
        "figure",
        { class: "ls-scene" },
        el("figcaption", {}, sceneCaption(scene, scenes, false)),
        createCardContext(scene, hide),
      );
    });
    this.scenes.replaceChildren(...drawn);
  }

  /**
   * @param {Scene} scene
   * @param {number} number
   * @param {Record<string, Recorded>} runs by name
   */
  #createStage(scene, number, runs) {
    const { recordings, stages, key, more, trigger } = this.#place;
    const name = `${key}-${number}`;
    const root = el("div", { class: "dp-stage" });
    const box = el(
      "figure",
      { class: "ls-scene" },
      el("figcaption", {}, sceneCaption(scene, this.#card.scenes, this.revealed)),
      root,
    );
    // No question views for a text without pictures, nor for several runs on one card.
    const asked = scene.pictures.length && this.#card.scenes.length === 1 ? more : [];
    // A stage must be in the page before it is drawn.
    queueMicrotask(() => {
      stages.mount(
        root,
        {
          strategy: name,
          visuals: ["media", "strip", ...scene.pictures, ...asked],
          unfolded: scene.pictures,
        },
        trigger,
      );
      const run = recordings.showTrace(name, runs[scene.run], "replayed");
      const { trace, maps } = runs[scene.run];
      const { length } = trace.steps;
      run.maps = maps;
      if (scene.until !== null && scene.until < length)
        recordings.rewind(run, scene.until, "replayed");
      recordings.select(run, scene.step - 1);
    });
    return box;
  }

  /**
   * Reveal the answer.
   * @param {CardAfter} after
   * @param {Record<string, Recorded>} runs by name
   * @param {{ focus?: boolean }} [how] focus: whether to focus the verdict
   */
  reveal(after, runs, { focus = true } = {}) {
    if (this.revealed) return;
    this.revealed = true;
    const { bet } = this.#card;
    const right = bet && after.key ? isRight(bet, after.key, this.answer) : null;
    if (bet && after.key) this.question?.mark(after.key);
    this.go.closest(".ls-acts")?.setAttribute("hidden", "");
    this.node.classList.add("revealed");
    this.verdict.hidden = false;
    this.verdict.className = `ls-verdict ${right === null ? "" : right ? "right" : "wrong"}`;
    this.verdict.textContent = verdictText(bet, after.key, right);
    this.told.replaceChildren(
      ...[
        after.myth &&
          el("p", { class: "ls-myth" }, el("b", {}, tr("Common misconception: ")), after.myth),
        el("div", { class: "ls-reveal" }, renderTree(after.reveal)),
        after.why.length &&
          el("details", { class: "ls-why" }, el("summary", {}, tr("Why")), renderTree(after.why)),
        (after.turn.length || after.opens) && this.#createExercise(after),
        // Before the pictures, which have many tab stops.
        this.#acts.next && createButton(tr("Next →"), this.#acts.next, { class: "dp-btn ls-on" }),
      ].filter(Boolean),
    );
    if (this.#place)
      this.scenes.replaceChildren(
        ...this.#card.scenes.map((scene, i) => this.#createStage(scene, i, runs)),
      );
    if (focus) this.verdict.focus({ preventScroll: true });
  }

  /** @param {CardAfter} after */
  #createExercise({ turn, opens }) {
    const open = opens && this.#acts.open;
    return el(
      "div",
      { class: "ls-exercise" },
      el("h4", {}, tr("Turn it yourself")),
      renderTree(turn),
      open &&
        createButton(tr("Open it with these settings"), () => open(opens), {
          class: "dp-btn ls-open",
        }),
    );
  }
}

/**
 * Return the caption of a scene.
 * @param {Scene} scene
 * @param {Scene[]} scenes
 * @param {boolean} told whether to name the run, which may give the answer away
 */
function sceneCaption(scene, scenes, told) {
  const step = tr("step {step}", { step: scene.step });
  const letter = scenes.length > 1 ? `${"ABC"[scenes.indexOf(scene)]} · ` : "";
  return `${letter}${told ? `${scene.run}, ` : ""}${step}`;
}

/**
 * @param {Bet | null} bet
 * @param {Key | null} key
 * @param {boolean | null} right
 */
function verdictText(bet, key, right) {
  if (!bet || !key) return tr("What happened");
  const { told } = key;
  if (right === null) return told ? tr("Answer: {told}", { told }) : tr("What happened");
  return right ? tr("✓ Right.") : tr("✗ Not quite. Answer: {told}", { told });
}
