// Details of one round: the drafter, the source of the draft and the source of the last token.
import { createScroller, el, svg } from "../shared/dom.mjs";
import { said } from "../shared/server_text.mjs";
import { renderTerms } from "../shared/terms.mjs";
import { formatPercent, makeVisible, pluralText, tokenLabel, tokenText } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { createRoundTree } from "./round_tree.mjs";
import { checkText, proposalText, textBefore } from "./words.mjs";

/** @param {...Content} text */
const createNote = (...text) => el("p", { class: "dp-note" }, text);

/**
 * @param {Run} run
 * @param {Step} step
 */
const createHeadline = (run, step) =>
  createNote(
    el("b", {}, renderTerms(tr("[round|Round] {n}. ", { n: step.index + 1 }))),
    ...renderTerms(proposalText(run, step.detail)),
    ` ${checkText(step)}`,
  );

/** @param {DraftDetail} detail */
const createLength = ({ length_reason }) =>
  createNote(tr("The draft's length: {reason}.", { reason: said(length_reason) }));

/**
 * The threshold of a round, if the rounds before it tuned it.
 * @param {number} threshold
 */
const createThreshold = (threshold) =>
  createNote(
    tr("A draft ended here below a probability of {threshold}, tuned to the rounds so far.", {
      threshold: formatPercent(threshold),
    }),
  );

/**
 * @param {Run} run
 * @param {DraftDetail} detail
 */
function createResidual(run, detail) {
  const lead =
    detail.final_source === "resampled"
      ? tr("After the rejection the token came from [residual|max(0, p − q)]: ")
      : tr("The last token came from: ");
  const names = detail.residual
    .slice(0, 6)
    .map(
      ([id, p]) =>
        `${(id === detail.final_token_id ? "▸" : "") + tokenLabel(run, id)} ${formatPercent(p)}`,
    );
  return createNote(renderTerms(lead), names.join(",  "));
}

/**
 * @param {Run} run
 * @param {Step} step
 */
export function createRoundDetails(run, step) {
  /** @type {DraftDetail} */
  const d = step.detail;
  return [
    createHeadline(run, step),
    createLength(d),
    ...(d.threshold == null ? [] : [createThreshold(d.threshold)]),
    ...(d.tree.length ? [createRoundTree(run, step)] : []),
    ...(d.match ? [createArc(run, step)] : []),
    ...(d.drafter === "universal" && d.draft_own.length ? [createRails(run, d)] : []),
    ...(d.residual.length ? [createResidual(run, d)] : []),
  ];
}

/**
 * The label of an arc for screen readers, and the note below it.
 * @param {number} size of the n-gram that was looked up
 * @param {number} place of its earlier occurrence, from 1
 * @param {number} copied number of tokens copied from there
 */
function arcTexts(size, place, copied) {
  const found =
    size === 1
      ? tr("The last token was found from token {place} on", { place })
      : tr("The last {size} tokens were found from token {place} on", { size, place });
  const seen =
    size === 1
      ? tr("The last token was seen before, from token {place} on (solid)", { place })
      : tr("The last {size} tokens were seen before, from token {place} on (solid)", {
          size,
          place,
        });
  const taken = pluralText(
    copied,
    tr("the 1 token after it was copied"),
    tr("the {n} tokens after it were copied"),
  );
  const became = pluralText(
    copied,
    tr("the 1 token that followed there (dashed) became the draft."),
    tr("the {n} tokens that followed there (dashed) became the draft."),
  );
  return [`${found}; ${taken}`, `${seen}; ${became}`];
}

/**
 * Prompt lookup: an arc from the end of the text to the earlier occurrence of its n-gram.
 * @param {Run} run
 * @param {Step} step
 */
function createArc(run, step) {
  const [size, start, copied] = step.detail.match;
  const text = textBefore(run, step);
  const tail = text.length - size;
  const from = Math.max(0, start - 3);
  const until = Math.min(tail, start + size + copied + 2);
  const after = Math.max(until, tail - 4);
  /** @param {number} i */
  const kindOf = (i) => {
    if (i >= start && i < start + size) return "src";
    if (i >= start + size && i < start + size + copied) return "copy";
    return i >= tail ? "dst" : null;
  };
  /**
   * @param {number} a
   * @param {number} b
   */
  const range = (a, b) =>
    text
      .slice(a, Math.max(a, b))
      .map((id, i) => el("span", { class: kindOf(a + i) }, tokenLabel(run, id)));
  /** @param {string} sign */
  const gap = (sign) => el("span", { class: "gap" }, sign);
  const [found, seen] = arcTexts(size, start + 1, copied);
  return el(
    "div",
    {
      class: "dt-arc",
      role: "img",
      "aria-label": found,
    },
    svg("svg", { "aria-hidden": "true" }, svg("path", { fill: "none" })),
    el(
      "div",
      { class: "dt-text" },
      from ? gap("…") : null,
      range(from, until),
      after > until ? gap(" … ") : null,
      range(after, text.length),
      gap(tr(" ⟵ next")),
    ),
    createNote(seen),
  );
}

/**
 * Draw the arc. Positions of the words are known only once they are in the page.
 * @param {Element} box
 */
export function drawArc(box) {
  const found = box.querySelector(".src");
  const sought = box.querySelector(".dst");
  const path = box.querySelector("svg path");
  if (!found || !sought || !path || !box.isConnected) return;
  const base = box.getBoundingClientRect();
  /** @param {Element} node */
  const above = (node) => {
    const at = node.getBoundingClientRect();
    return [at.left + at.width / 2 - base.left, at.top - base.top];
  };
  const [x1, y1] = above(found);
  const [x2, y2] = above(sought);
  const high = Math.min(y1, y2) - 26;
  path.setAttribute("d", `M${x2},${y2} C${x2},${high} ${x1},${high} ${x1},${y1}`);
}

/**
 * Universal assisted decoding: tokens of the draft model
 * above, the same text as target tokens below.
 * @param {Run} run
 * @param {DraftDetail} detail
 */
function createRails(run, detail) {
  /**
   * @param {string} name
   * @param {string[]} pieces
   * @param {string} kind
   */
  const rail = (name, pieces, kind) =>
    el(
      "div",
      { class: "dt-rail" },
      el("span", { class: "who" }, name),
      el(
        "span",
        { class: `cells ${kind}` },
        pieces.map((p) => el("span", {}, makeVisible(p).replace(/ /g, "·"))),
      ),
    );
  const ours = detail.reencoded.map((id) => tokenText(run, id));
  const lost = detail.lost
    ? tr("Lost in re-encoding: “{lost}”.", { lost: makeVisible(detail.lost) })
    : tr("Nothing was lost between the two tokenizers.");
  const box = createScroller(
    tr("Tokens of the draft model and of the main model"),
    rail(tr("draft model"), detail.draft_own, "own"),
    rail(tr("main model"), ours, "ours"),
    createNote(lost),
  );
  box.className = "dt-rails dp-scroll";
  return box;
}
