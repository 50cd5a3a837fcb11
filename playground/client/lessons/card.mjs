// One card: what is seen, the bet, and what happened. The page, a room and the printed sheet draw it alike.
import { button, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { isRight, question } from "./bets.mjs";
import { soFar } from "./so_far.mjs";
import { grown } from "./tree.mjs";

/**
 * Where runs are drawn.
 * @typedef {object} Place
 * @property {import("../../../visualizers/stage/recordings.mjs").Recordings} recordings
 * @property {import("../../../visualizers/stage/stage.mjs").Stages} stages
 * @property {string} key of this card's stages
 * @property {string[]} more views beside the pictures, such as questions to a server
 * @property {(name: string, data?: unknown) => void} trigger
 */

const NO_PLACE = /** @type {any} */ (null);

export class CardView {
  #card;
  #place;
  #runs;
  #acts;

  /**
   * @param {any} card what is seen before the bet: `before` of playground/lesson_data.py
   * @param {object} given
   * @param {Place} [given.place]
   * @param {Record<string, Recorded>} [given.runs] by name, where they are known already
   * @param {(answer: any) => void} [given.bet] called when an answer is given
   * @param {() => void} [given.ask] called to see what happened
   * @param {(form: any) => void} [given.open] puts a form into its tab
   * @param {() => void} [given.next] goes on to the next card
   */
  constructor(card, { place = NO_PLACE, runs = {}, bet, ask, open, next } = {}) {
    this.#card = card;
    this.#place = place;
    this.#runs = runs;
    this.#acts = { bet, ask, open, next };
    this.revealed = false;
    this.question = card.bet && question(card.bet, () => this.#changed());
    this.go = button(card.bet ? tr("Bet and see") : tr("See what happened"), () => ask?.(), {
      class: "dp-btn ls-go",
      type: "submit",
    });
    this.without = button(tr("See without a bet"), () => ask?.(), { class: "dp-btn ls-without" });
    this.verdict = el("p", { class: "ls-verdict", tabindex: -1, hidden: true });
    this.told = el("div", { class: "ls-told" });
    this.scenes = el("div", { class: `ls-scenes n${card.scenes.length}` });
    const acts = ask
      ? el("p", { class: "ls-acts" }, this.go, card.bet ? this.without : null)
      : null;
    this.node = el(
      "article",
      { class: "ls-card", "aria-label": card.title },
      el("h3", { class: "ls-title" }, card.title),
      el("div", { class: "ls-situation" }, grown(card.situation)),
      el(
        "div",
        { class: "ls-both" },
        el("div", { class: "ls-words" }, this.#form(acts), this.verdict, this.told),
        this.scenes,
      ),
    );
    this.#changed();
    this.#before();
  }

  #form(acts) {
    const { bet } = this.#card;
    const submit = (event) => {
      event.preventDefault();
      if (this.answer !== null || !bet) this.#acts.ask?.();
    };
    const parts = bet
      ? el(
          "fieldset",
          { class: `ls-bet ${bet.kind}` },
          el("legend", {}, grown(bet.question)),
          this.question.node,
        )
      : null;
    return el("form", { class: "ls-form", onsubmit: submit }, parts, acts);
  }

  get answer() {
    return this.question?.answer() ?? null;
  }

  #changed() {
    const ready = !this.#card.bet || this.answer !== null;
    this.go.toggleAttribute("disabled", !ready);
    if (ready && this.#card.bet && !this.revealed) this.#acts.bet?.(this.answer);
  }

  // What a run has written before the step; the run itself where nothing of it is hidden.
  #before() {
    const { hide, scenes } = this.#card;
    const drawn = scenes.map((scene, i) => {
      if (hide === "nothing" && this.#runs[scene.run]) return this.#stage(scene, i, this.#runs);
      return el(
        "figure",
        { class: "ls-scene" },
        el("figcaption", {}, captionOf(scene, scenes, false)),
        soFar(scene, hide),
      );
    });
    this.scenes.replaceChildren(...drawn);
  }

  #stage(scene, number, runs) {
    const { recordings, stages, key, more, trigger } = this.#place;
    const name = `${key}-${number}`;
    const root = el("div", { class: "dp-stage" });
    const box = el(
      "figure",
      { class: "ls-scene" },
      el("figcaption", {}, captionOf(scene, this.#card.scenes, this.revealed)),
      root,
    );
    // Of a text alone nothing is asked, nor where several runs stand beneath each other.
    const asked = scene.pictures.length && this.#card.scenes.length === 1 ? more : [];
    // A stage is drawn when it stands in the page.
    queueMicrotask(() => {
      stages.mount(
        root,
        { strategy: name, visuals: ["media", "strip", ...scene.pictures, ...asked] },
        trigger,
      );
      const run = recordings.showTrace(name, runs[scene.run], "replayed");
      const { length } = runs[scene.run].trace.steps;
      if (scene.until !== null && scene.until < length)
        recordings.rewind(run, scene.until, "replayed");
      recordings.select(run, scene.step - 1);
    });
    return box;
  }

  /**
   * Show what happened.
   * @param {any} after of playground/lesson_data.py
   * @param {Record<string, Recorded>} runs by name
   * @param {{ focus?: boolean }} [how] focus: whether whoever bets goes there
   */
  reveal(after, runs, { focus = true } = {}) {
    if (this.revealed) return;
    this.revealed = true;
    const { bet } = this.#card;
    const right = bet && after.key ? isRight(bet, after.key, this.answer) : null;
    if (bet && after.key) this.question.mark(after.key);
    this.go.closest(".ls-acts")?.setAttribute("hidden", "");
    this.node.classList.add("revealed");
    this.verdict.hidden = false;
    this.verdict.className = `ls-verdict ${right === null ? "" : right ? "right" : "wrong"}`;
    this.verdict.textContent = verdictOf(bet, after.key, right);
    this.told.replaceChildren(
      ...[
        after.myth &&
          el(
            "p",
            { class: "ls-myth" },
            el("b", {}, tr("A reasonable idea, and not so: ")),
            after.myth,
          ),
        el("div", { class: "ls-reveal" }, grown(after.reveal)),
        after.why.length &&
          el("details", { class: "ls-why" }, el("summary", {}, tr("Why")), grown(after.why)),
        (after.turn.length || after.opens) && this.#turn(after),
        // Before the pictures, which have many stops for the keyboard.
        this.#acts.next && button(tr("Next →"), this.#acts.next, { class: "dp-btn ls-on" }),
      ].filter(Boolean),
    );
    if (this.#place)
      this.scenes.replaceChildren(
        ...this.#card.scenes.map((scene, i) => this.#stage(scene, i, runs)),
      );
    if (focus) this.verdict.focus({ preventScroll: true });
  }

  #turn({ turn, opens }) {
    const open = opens && this.#acts.open;
    return el(
      "div",
      { class: "ls-turn" },
      el("h4", {}, tr("Turn it yourself")),
      grown(turn),
      open &&
        button(tr("Open it with these settings"), () => open(opens), { class: "dp-btn ls-open" }),
    );
  }
}

// What a run is called may say what is asked for, so it is told with the answer.
function captionOf(scene, scenes, told) {
  const step = tr("step {step}", { step: scene.step });
  const letter = scenes.length > 1 ? `${"ABC"[scenes.indexOf(scene)]} · ` : "";
  return `${letter}${told ? `${scene.run}, ` : ""}${step}`;
}

function verdictOf(bet, key, right) {
  if (!bet || !key) return tr("What happened");
  const { told } = key;
  if (right === null) return told ? tr("What is right: {told}", { told }) : tr("What happened");
  return right ? tr("✓ Right.") : tr("✗ Not so. What is right: {told}", { told });
}
