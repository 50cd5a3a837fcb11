// The printed handout of a lesson: the cards as questions, then the answers on a separate page.
import { el } from "../../../visualizers/shared/dom.mjs";
import { formatWholePercent, makeVisible, quoteText } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { unitSuffix } from "./bets.mjs";
import { createCardContext } from "./card_context.mjs";
import { renderTree } from "./markdown.mjs";

/** @import { Bet } from "./bets.mjs" */
/** @import { CardBefore, Place } from "./card.mjs" */
/** @import { Scene } from "./card_context.mjs" */
/** @import { Lesson, LessonCard } from "./lesson.mjs" */
/** @typedef {Omit<Place, "key">} HandoutPlace */

/**
 * Create the handout of a lesson. Call `draw` once its node is in the page.
 * @param {Lesson} lesson
 * @param {HandoutPlace} place
 */
export function createHandout(lesson, place) {
  const { about, cards } = lesson;
  /** @type {(() => void)[]} */
  const draw = [];
  const node = el(
    "section",
    { class: "ls-handout", "aria-hidden": "true" },
    el("h2", {}, about.title),
    el("p", { class: "ls-sheet-about" }, `${about.summary} ${tr("Name: ______________________")}`),
    cards.map((card) => createQuestionSheet(card.before, lesson, place, draw)),
    el(
      "section",
      { class: "ls-answer-key" },
      el("h2", {}, tr("{title}: what is right", { title: about.title })),
      cards.map((card) => createAnswerSheet(card, lesson, place, draw)),
    ),
  );
  return {
    node,
    /** Draw the pictures; the node must be in the page. */
    draw() {
      for (const one of draw) one();
    },
  };
}

/**
 * @param {CardBefore} card
 * @param {Lesson} lesson
 * @param {HandoutPlace} place
 * @param {(() => void)[]} draw
 */
function createQuestionSheet({ number, title, situation, bet, scenes, hide }, lesson, place, draw) {
  const seen = hide === "nothing";
  return el(
    "article",
    { class: "ls-sheet" },
    el("h3", {}, `${number}. ${title}`),
    el("div", {}, renderTree(situation)),
    scenes.map((scene, i) =>
      seen
        ? createPicture(scene, `question-${number}-${i}`, lesson, place, draw)
        : createCardContext(scene, hide),
    ),
    bet && el("p", { class: "ls-sheet-question" }, renderTree(bet.question)),
    bet && createAnswerSpace(bet),
  );
}

const CHECKBOX = "☐ ";
/** @type {Record<string, number>} */
const ANSWER_LINES = { number: 1, text: 3 };

/** @param {Bet} bet */
function createAnswerSpace({ kind, options, low, high, unit }) {
  if (kind === "truth") return el("p", {}, `${CHECKBOX}${tr("True")}   ${CHECKBOX}${tr("False")}`);
  if (ANSWER_LINES[kind]) {
    const ends =
      kind === "number"
        ? tr("(from {low} to {high}{unit})", { low, high, unit: unitSuffix({ unit }) })
        : "";
    return el(
      "div",
      {},
      ends,
      Array.from({ length: ANSWER_LINES[kind] }, () => el("p", { class: "ls-line" })),
    );
  }
  const box = kind === "order" ? "__ " : CHECKBOX;
  /** @param {string} text */
  const named = (text) => (kind === "token" ? quoteText(makeVisible(text)) : text);
  return el(
    "ul",
    { class: "ls-boxes" },
    options.map((text) => el("li", {}, box, named(text))),
  );
}

/**
 * @param {LessonCard} card
 * @param {Lesson} lesson
 * @param {HandoutPlace} place
 * @param {(() => void)[]} draw
 */
function createAnswerSheet({ before, after }, lesson, place, draw) {
  const { key } = after;
  return el(
    "article",
    { class: "ls-sheet" },
    el("h3", {}, `${before.number}. ${before.title}`),
    key?.told ? el("p", {}, el("b", {}, tr("Right: {told}", { told: key.told }))) : null,
    key?.probabilities.length && before.bet
      ? el(
          "p",
          {},
          before.bet.options
            .map((text, i) =>
              tr("“{text}” {share}", {
                text: makeVisible(text),
                share: formatWholePercent(key.probabilities[i]),
              }),
            )
            .join(" · "),
        )
      : null,
    after.myth ? el("p", { class: "ls-myth" }, after.myth) : null,
    el("div", {}, renderTree(after.reveal)),
    after.why.length ? el("div", { class: "ls-why" }, renderTree(after.why)) : null,
    before.scenes.map((scene, i) =>
      createPicture(scene, `sheet-${before.number}-${i}`, lesson, place, draw),
    ),
  );
}

/**
 * @param {Scene} scene
 * @param {string} key of its stage
 * @param {Lesson} lesson
 * @param {HandoutPlace} place
 * @param {(() => void)[]} draw
 */
function createPicture(scene, key, { runs }, { recordings, stages, trigger }, draw) {
  const root = el("div", { class: "dp-stage" });
  draw.push(() => {
    const { pictures } = scene;
    const visuals = ["media", "strip", ...pictures];
    stages.mount(root, { strategy: key, visuals, unfolded: pictures }, trigger);
    const run = recordings.showTrace(key, runs[scene.run], "replayed");
    if (scene.until !== null) recordings.rewind(run, scene.until, "replayed");
    recordings.select(run, scene.step - 1);
    const stage = stages.list.find((one) => one.root === root);
    if (stage) stages.unfold(stage);
  });
  return el("figure", { class: "ls-scene" }, root);
}
