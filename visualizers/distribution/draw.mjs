// View of the random draw: the token's share of the probability, and the race that it won.
import { createTable, el } from "../shared/dom.mjs";
import { StepView } from "../shared/step_view.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { formatFixed, formatPercent, toCssLength, tokenLabel, wordLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { createRace } from "./race.mjs";
import { Strip } from "./strip.mjs";

const RACE_COLUMNS = [tr("token"), tr("[probability]"), tr("[noise] e"), tr("[arrival] e ÷ p")];
const DRAFT_COLUMNS = [
  tr("drafted"),
  "[p and q|p]",
  "[p and q|q]",
  tr("kept if u ≤"),
  "[u]",
  tr("status"),
];
const RACE_NOTE = tr(
  "Every token draws exponential [noise] e from the run's [seed]; the smallest e ÷ p wins. Over many draws a token wins exactly in proportion to p, its probability with your settings.",
);
const POOL_NOTE = tr(
  "The continuations of all [beam|beams] race together, and the earliest are drawn into the pool; of these the search keeps those with the largest sums.",
);
// Step kind -> the reason why nothing was drawn.
/** @type {Record<string, string>} */
const NO_DRAW_TEXT = {
  beam: tr("Nothing was drawn at this step: the search took the most probable continuations."),
  draft: tr(
    "Nothing was drawn at this step: each drafted token was compared with the main model's own choice.",
  ),
  layer: tr("Nothing was drawn at this step: the token with the largest contrast was taken."),
  contrastive: tr("Nothing was drawn at this step: the candidate with the best score was taken."),
};
const GREEDY_TEXT = tr("Nothing was drawn at this step: the most probable token was taken.");
const WINNER_MARK = { sign: "◆", word: tr("wins") };

/** @param {string} sentence */
const createNote = (sentence) => el("p", { class: "dp-note" }, renderTerms(sentence));

/**
 * @param {string[]} columns
 * @param {Content[][]} rows
 */
const createDetails = (columns, rows) =>
  el(
    "details",
    { class: "rc-more" },
    el("summary", {}, tr("The numbers behind it")),
    createTable(columns.map(renderTerms), rows),
  );

// The race of a step: its detail, or a field of the detail of another kind.
/**
 * @param {Step} step
 * @returns {DrawDetail}
 */
const findDraw = ({ detail }) => (detail?.kind === "draw" ? detail : detail?.draw);

/**
 * @param {Run} run
 * @param {Step} step
 * @param {any} shown
 */
function createRaceView(run, step, shown) {
  const { racers } = findDraw(step);
  const words = racers.map((racer, i) => ({
    name: tokenLabel(run, racer.token_id),
    at: shown.runners[i],
    time: formatFixed(racer.arrival),
    ...(i ? { sign: "○", word: "" } : WINNER_MARK),
  }));
  const rows = racers.map((r, i) => [
    (i ? "" : "▸ ") + tokenLabel(run, r.token_id),
    formatPercent(r.probability),
    formatFixed(r.noise),
    formatFixed(r.arrival),
  ]);
  return [
    createRace(words, shown.ticks, tr("the earliest wins")),
    createDetails(RACE_COLUMNS, rows),
    createNote(RACE_NOTE),
  ];
}

/**
 * @param {Run} run
 * @param {Step} step
 * @param {any} shown
 */
function createPoolView(run, step, shown) {
  /** @type {BeamDetail} */
  const { pool } = step.detail;
  const drawn = pool.flatMap(({ arrival, ...node }) => (arrival ? [{ ...node, arrival }] : []));
  const nodes = drawn.sort((a, b) => a.arrival - b.arrival).slice(0, shown.runners.length);
  const words = nodes.map((node, i) => ({
    name: tokenLabel(run, node.token_id),
    at: shown.runners[i],
    time: formatFixed(node.arrival),
    ...(node.fate === "pruned"
      ? { sign: "○", word: tr("dropped") }
      : { sign: "◆", word: tr("kept") }),
  }));
  const rows = words.map(({ name, time, word }) => [name, time, word]);
  const ends = tr("the earliest are drawn into the pool");
  return [
    createRace(words, shown.ticks, ends),
    createDetails([tr("token"), tr("[arrival]"), tr("result")], rows),
    createNote(POOL_NOTE),
  ];
}

/**
 * One drafted token: the range of u that keeps it, and the u that was drawn.
 * @param {Run} run
 * @param {DraftToken} token
 * @param {number} ratio
 */
function createJudgement(run, token, ratio) {
  const kept = token.status === "accepted";
  const [u, most] = [token.u ?? 0, ratio].map((x) => formatFixed(x));
  const words = kept
    ? tr("kept: u {u} ≤ {most}", { u, most })
    : tr("rejected: u {u} > {most}", { u, most });
  return el(
    "li",
    {},
    el("span", { class: "t" }, tokenLabel(run, token.token_id)),
    el(
      "span",
      { class: "rc-track", "aria-hidden": "true" },
      el("i", { style: { width: toCssLength(ratio) } }),
      el("b", { style: { left: toCssLength(token.u ?? 0) } }, kept ? "●" : "✕"),
    ),
    el("span", { class: "rc-word" }, words),
  );
}

// Names have room in slices of this strip as if it were so wide.
const STRIP_WIDTH = 400;

/**
 * The distribution that the last token of a round was drawn from.
 * @param {Run} run
 * @param {DraftDetail} detail
 * @param {{ strip: [number, number][], others: number }} shown
 */
function createResidualStrip(run, detail, { strip: shares, others: rest }) {
  const from =
    detail.final_source === "resampled"
      ? tr("What is left after the rejection, max(p − q, 0)")
      : tr("The main model's own distribution");
  const strip = new Strip();
  const slices = shares.map(([id, share]) => ({
    name: wordLabel(run, id),
    share,
    on: id === detail.final_token_id,
  }));
  strip.draw({ slices, rest, needle: null }, STRIP_WIDTH);
  return el("figure", { class: "st-figure" }, el("figcaption", {}, renderTerms(from)), strip.node);
}

/**
 * @param {Run} run
 * @param {Step} step
 * @param {any} shown
 */
function createDraftView(run, step, shown) {
  /** @type {DraftDetail} */
  const detail = step.detail;
  const tokens = detail.tokens.filter((t) => t.u !== null && t.status !== "unverified");
  const rows = tokens.map((t, i) => [
    tokenLabel(run, t.token_id),
    ...[t.p, t.q, shown.judged[i], t.u].map((x) => (x === null ? "–" : formatFixed(x))),
    t.status === "accepted" ? tr("accepted") : tr("rejected"),
  ]);
  return [
    tokens.length
      ? el(
          "ol",
          { class: "rc-judgements" },
          tokens.map((t, i) => createJudgement(run, t, shown.judged[i])),
        )
      : createNote(
          tr("Each drafted token was compared with the one that the [main model] drew there."),
        ),
    shown.strip ? createResidualStrip(run, detail, shown) : null,
    tokens.length ? createDetails(DRAFT_COLUMNS, rows) : null,
    createNote(
      tr(
        "A drafted token is kept when the random number [u] is at most min(1, p ÷ q); after a rejection the next one is drawn from the [residual]. The race of that last draw is not part of the record.",
      ),
    ),
  ];
}

/**
 * @param {Run} run
 * @param {Step} step
 */
function createDrawView(run, step) {
  const shown = run.shown[step.index].draw ?? {};
  const kind = step.detail?.kind;
  if (shown.judged) return createDraftView(run, step, shown);
  if (shown.runners)
    return kind === "beam" ? createPoolView(run, step, shown) : createRaceView(run, step, shown);
  if (kind === "layer" && run.config.do_sample)
    return [
      createNote(tr("The token was drawn, but this record is from before the race was kept.")),
    ];
  return [el("p", { class: "dp-empty" }, NO_DRAW_TEXT[kind] ?? GREEDY_TEXT)];
}

class Draw {
  // Steps whose race was animated.
  /** @type {Set<string>} */
  #animated = new Set();

  /** @param {HTMLElement} root */
  constructor(root) {
    this.body = el("div", { class: "rc-content" });
    root.append(this.body);
    this.once = new StepView((run, step) => this.#paintStep(run, step));
  }

  /**
   * @param {Run} run
   * @param {Step} step
   */
  #paintStep(run, step) {
    const key = `${run.id}:${step.index}`;
    const parts = createDrawView(run, step);
    this.body.replaceChildren(...parts.flatMap((part) => part ?? []));
    const race = this.body.querySelector(".rc-race");
    // No animation while the run is followed, because its steps change too quickly.
    if (!race || this.#animated.has(key) || (run.status === "running" && run.follow)) return;
    race.classList.add("rc-run");
    race.addEventListener("animationstart", () => this.#animated.add(key), { once: true });
    race.addEventListener("animationend", () => {
      // An element that still has the animation's class would run it again when it is shown again.
      if (!race.getAnimations({ subtree: true }).length) race.classList.remove("rc-run");
    });
  }

  /** @param {Run} run */
  update(run) {
    this.once.update(run);
  }

  /**
   * @param {Run} run
   * @param {number} index
   */
  select(run, index) {
    this.once.select(run, index);
  }

  clear() {
    this.once.clear();
    this.body.replaceChildren();
  }
}

/** @type {ViewSpec} */
export const draw = {
  title: tr("The draw"),
  recorded: true,
  place: "drawer",
  tab: tr("Draw"),
  empty: tr("How chance picked the token: a race in which likely tokens run faster."),
  mount: (root) => new Draw(root),
};
