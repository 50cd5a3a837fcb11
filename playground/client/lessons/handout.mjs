// The printed handout of a lesson: the cards as questions, then the answers on a separate page.
import { el } from "../../../visualizers/shared/dom.mjs";
import { percent, visible } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { unitOf } from "./bets.mjs";
import { soFar } from "./card_context.mjs";
import { grown } from "./markdown.mjs";

/**
 * Create the handout of a lesson. Call `draw` once its node is in the page.
 * @param {any} lesson
 * @param {Omit<import("./card.mjs").Place, "key">} place
 */
export function handout(lesson, place) {
  const { about, cards } = lesson;
  const draw = [];
  const node = el(
    "section",
    { class: "ls-handout", "aria-hidden": "true" },
    el("h2", {}, about.title),
    el("p", { class: "ls-sheet-about" }, `${about.summary} ${tr("Name: ______________________")}`),
    cards.map((card) => questionOf(card.before, lesson, place, draw)),
    el(
      "section",
      { class: "ls-key" },
      el("h2", {}, tr("{title}: what is right", { title: about.title })),
      cards.map((card) => answerOf(card, lesson, place, draw)),
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

function questionOf({ number, title, situation, bet, scenes, hide }, lesson, place, draw) {
  const seen = hide === "nothing";
  return el(
    "article",
    { class: "ls-sheet" },
    el("h3", {}, `${number}. ${title}`),
    el("div", {}, grown(situation)),
    scenes.map((scene, i) =>
      seen ? pictureOf(scene, `question-${number}-${i}`, lesson, place, draw) : soFar(scene, hide),
    ),
    bet && el("p", { class: "ls-sheet-question" }, grown(bet.question)),
    bet && roomFor(bet),
  );
}

const BOX = "☐ ";
const LINES = { number: 1, text: 3 };

function roomFor({ kind, options, low, high, unit }) {
  if (kind === "truth") return el("p", {}, `${BOX}${tr("True")}   ${BOX}${tr("False")}`);
  if (LINES[kind]) {
    const ends =
      kind === "number"
        ? tr("(from {low} to {high}{unit})", { low, high, unit: unitOf({ unit }) })
        : "";
    return el(
      "div",
      {},
      ends,
      Array.from({ length: LINES[kind] }, () => el("p", { class: "ls-line" })),
    );
  }
  const box = kind === "order" ? "__ " : BOX;
  const named = (text) => (kind === "token" ? tr("“{text}”", { text: visible(text) }) : text);
  return el(
    "ul",
    { class: "ls-boxes" },
    options.map((text) => el("li", {}, box, named(text))),
  );
}

function answerOf({ before, after }, lesson, place, draw) {
  const { key } = after;
  return el(
    "article",
    { class: "ls-sheet" },
    el("h3", {}, `${before.number}. ${before.title}`),
    key?.told ? el("p", {}, el("b", {}, tr("Right: {told}", { told: key.told }))) : null,
    key?.probabilities.length
      ? el(
          "p",
          {},
          before.bet.options
            .map((text, i) =>
              tr("“{text}” {share}", { text: visible(text), share: percent(key.probabilities[i]) }),
            )
            .join(" · "),
        )
      : null,
    after.myth ? el("p", { class: "ls-myth" }, after.myth) : null,
    el("div", {}, grown(after.reveal)),
    after.why.length ? el("div", { class: "ls-why" }, grown(after.why)) : null,
    before.scenes.map((scene, i) =>
      pictureOf(scene, `sheet-${before.number}-${i}`, lesson, place, draw),
    ),
  );
}

function pictureOf(scene, key, { runs }, { recordings, stages, trigger }, draw) {
  const root = el("div", { class: "dp-stage" });
  draw.push(() => {
    stages.mount(root, { strategy: key, visuals: ["media", "strip", ...scene.pictures] }, trigger);
    const run = recordings.showTrace(key, runs[scene.run], "replayed");
    if (scene.until !== null) recordings.rewind(run, scene.until, "replayed");
    recordings.select(run, scene.step - 1);
    stages.unfold(stages.list.find((stage) => stage.root === root));
  });
  return el("figure", { class: "ls-scene" }, root);
}
