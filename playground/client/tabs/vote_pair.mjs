// Two texts without their names, and the votes on them: the part that the taste test and Tune have in common.
import { createButton, el } from "../../../visualizers/shared/dom.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";

/** @typedef {import("./taste_votes.mjs").Side} Side */

const LEFT = tr("Left");
const RIGHT = tr("Right");
/** @type {[string, string, Side | null][]} */
const VOTE_KEYS = [
  ["1", LEFT, 0],
  ["2", RIGHT, 1],
  ["0", tr("No difference"), null],
];

/**
 * Return the title of a pair, which takes the focus, and what stands under it.
 * @param {object} pair
 * @param {"h3" | "h4"} pair.level of the headings
 * @param {number} pair.number from 1
 * @param {number} pair.total
 * @param {[Content, Content]} pair.texts left, right
 * @param {(side: Side | null) => void} pair.vote
 * @param {Content} [pair.more] behind the votes
 */
export function createVotePair({ level, number, total, texts, vote, more = null }) {
  const title = el(
    level,
    { class: "ts-title", tabindex: -1 },
    tr("Pair {n} of {total}: which do you like better?", { n: number, total }),
  );
  const cards = [LEFT, RIGHT].map((side, i) =>
    el(
      "section",
      { class: "dp-card ts-text", "aria-label": side },
      el(level, {}, side),
      el("p", {}, texts[i]),
    ),
  );
  const votes = VOTE_KEYS.map(([key, label, side]) =>
    createButton([el("kbd", { "aria-hidden": "true" }, key), " ", label], () => vote(side), {
      class: "dp-btn ts-vote",
      "aria-keyshortcuts": key,
    }),
  );
  const acts = { class: "dp-row ts-votes", role: "group", "aria-label": tr("Your vote") };
  return [title, el("div", { class: "ts-pair" }, cards), el("div", acts, votes, more)];
}

/**
 * Return the vote of a key; undefined if it is none, or belongs to a field.
 * @param {KeyboardEvent} event
 */
export function findVote({ target, key, ctrlKey, metaKey, altKey }) {
  if (ctrlKey || metaKey || altKey) return undefined;
  if (target instanceof Element && target.closest("input, textarea, select")) return undefined;
  return VOTE_KEYS.find(([name]) => name === key)?.[2];
}
