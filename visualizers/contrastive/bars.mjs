// Rows of contrastive search candidates: confidence against degeneration penalty.
import { el } from "../shared/dom.mjs";
import { formatFixed, formatWholePercent, quoteText, tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { positionText, tokenAt } from "./words.mjs";

/**
 * The scale is the same for the whole run: from −α to 1 − α.
 * @param {ContrastiveOption} option
 * @param {number} alpha
 */
function createBar(option, alpha) {
  /** @param {number} x */
  const at = (x) => 100 * Math.max(0, Math.min(1, x + alpha));
  /**
   * @param {number} from
   * @param {number} to
   * @param {string} kind
   */
  const span = (from, to, kind) => {
    const left = at(Math.min(from, to));
    const width = at(Math.max(from, to)) - left;
    return el("i", { class: kind, style: { left: `${left}%`, width: `${width}%` } });
  };
  /**
   * @param {string} kind
   * @param {number} x
   */
  const tick = (kind, x) => el("i", { class: kind, style: { left: `${at(x)}%` } });
  const { degeneration_penalty: pays, confidence: gains, score } = option;
  return el(
    "span",
    { class: "cs-bar", "aria-hidden": "true" },
    span(0, gains, "conf"),
    // A negative cosine gives a negative penalty, which raises the score.
    pays >= 0 ? span(-pays, 0, "pen") : span(gains, gains - pays, "bonus"),
    tick("zero", 0),
    tick("mark", score),
  );
}

/**
 * @param {Run} run
 * @param {ContrastiveOption} option
 * @param {string} cause
 * @param {boolean} chosen
 */
function describeCandidate(run, option, cause, chosen) {
  const numbers = tr("confidence {confidence}, penalty {penalty}, score {score}", {
    confidence: formatFixed(option.confidence),
    penalty: formatFixed(option.degeneration_penalty),
    score: formatFixed(option.score),
  });
  const like = tr("most similar to “{token}”{place}, cosine {cosine}", {
    token: cause,
    place: positionText(option.position),
    cosine: formatFixed(option.max_cosine),
  });
  return `${quoteText(tokenLabel(run, option.token_id))}${chosen ? tr(", chosen") : ""}: ${numbers}, ${like}`;
}

/**
 * @param {Run} run
 * @param {Step} step
 * @param {number[]} ids
 * @param {(k: number) => void} mark
 */
export function createCandidateRows(run, step, ids, mark) {
  /** @type {ContrastiveDetail} */
  const { options, chosen } = step.detail;
  return options.map((option, k) => {
    const cause = tokenAt(run, ids, option.position);
    const [on, off] = [() => mark(k), () => mark(-1)];
    return el(
      "div",
      {
        class: `cs-row${k === chosen ? " on" : ""}`,
        role: "listitem",
        tabindex: 0,
        "aria-label": describeCandidate(run, option, cause, k === chosen),
        onmouseenter: on,
        onmouseleave: off,
        onfocus: on,
        onblur: off,
      },
      el("span", { class: "t" }, tokenLabel(run, option.token_id)),
      createBar(option, run.config.penalty_alpha),
      el("span", { class: "n" }, formatFixed(option.score)),
      el(
        "span",
        { class: "why" },
        tr("probability with your settings {p} · like ", {
          p: formatWholePercent(option.probability),
        }),
        el("b", {}, cause),
        positionText(option.position),
        tr(" · cosine {cosine}", { cosine: formatFixed(option.max_cosine, 2) }),
        chosen !== 0 && k === 0 ? el("em", {}, tr(" most probable")) : null,
      ),
    );
  });
}
