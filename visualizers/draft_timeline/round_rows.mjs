// One row per round: the drafted tokens with their verdicts, and the token that the target added.
import { el } from "../shared/dom.mjs";
import { pluralText, toCssLength, tokenLabel } from "../shared/text.mjs";
import { tr } from "../shared/tr.mjs";
import { describeToken, roundSummary, STATUS_GLYPHS } from "./words.mjs";

/** @import { JudgedToken } from "./words.mjs" */

/**
 * @typedef {object} TileActions
 * @property {(words: string) => void} tell shows the words below the rows
 * @property {() => void} choose selects the round
 * @property {(question: Asked) => void} why asks why a drafted token was kept or rejected
 */

/**
 * @param {string} kind
 * @param {number} share
 * @param {Content} [mark]
 */
const createBar = (kind, share, mark) =>
  el("span", { class: kind }, el("i", { style: { width: toCssLength(share) } }), mark);

/**
 * Bars for p and q; a mark on p's bar shows the random number u.
 * @param {JudgedToken} token
 */
function createBars(token) {
  if (token.p === undefined) return null;
  const judged = token.u !== null && token.ratio !== null;
  const at = { class: "u", style: { left: toCssLength(Math.min(1, token.u ?? 0)) } };
  return el(
    "span",
    { class: "pq", "aria-hidden": "true" },
    createBar("p", token.p, judged ? el("i", at) : null),
    token.q === null ? null : createBar("q", token.q),
  );
}

/**
 * @param {Run} run
 * @param {JudgedToken} token
 * @param {string} kind
 * @param {TileActions} actions
 * @param {number | null} at
 */
function createTile(run, token, kind, { tell, choose, why }, at) {
  const said = describeToken(run, token, kind);
  const show = () => tell(said);
  return el(
    "button",
    {
      type: "button",
      class: `dt-tile k-${kind}`,
      "aria-label": said,
      title: said,
      onfocus: show,
      onmouseenter: show,
      onclick: () => {
        choose();
        if (at !== null) why({ token_id: token.token_id, at });
      },
    },
    el("span", { class: "t" }, tokenLabel(run, token.token_id)),
    el("span", { class: "g", "aria-hidden": "true" }, STATUS_GLYPHS[kind]),
    createBars(token),
  );
}

/**
 * Tiles of a round. The target's token follows the last judged one.
 * @param {Run} run
 * @param {Step} step
 * @param {TileActions} actions
 */
function createTiles(run, step, actions) {
  /** @type {DraftDetail} */
  const { tokens, final_source: source, final_token_id: id, residual } = step.detail;
  const { accepted, ratio, mixture } = roundSummary(run, step);
  const tiles = tokens.map((t, i) =>
    createTile(
      run,
      { ...t, ratio: ratio[i], mixture: mixture[i] },
      t.status,
      actions,
      // Tokens after a rejection were not judged, so there is nothing to ask.
      i < step.emit.length ? i : null,
    ),
  );
  if (source === "ended") return tiles;
  const top = residual.find(([other]) => other === id);
  const rejected = tokens.some((t) => t.status === "rejected");
  const final = {
    token_id: id,
    p: top ? top[1] : undefined,
    q: null,
    u: null,
    ratio: null,
    mixture: null,
  };
  tiles.splice(
    rejected ? accepted + 1 : accepted,
    0,
    createTile(run, final, source, actions, step.emit.length - 1),
  );
  return tiles;
}

/**
 * @param {Run} run
 * @param {Step} step
 * @param {TileActions} actions
 */
export function createRoundRow(run, step, actions) {
  const drafted = step.detail.draft_length;
  const round = step.index + 1;
  const number = el(
    "button",
    {
      type: "button",
      class: "dt-number",
      "aria-label": pluralText(
        step.emit.length,
        tr("Round {round}, 1 token", { round }),
        tr("Round {round}, {n} tokens", { round }),
      ),
      onclick: actions.choose,
    },
    String(round),
  );
  return el(
    "div",
    { class: "dt-row", role: "listitem" },
    number,
    el(
      "div",
      { class: "dt-lane" },
      createTiles(run, step, actions),
      drafted ? null : el("span", { class: "dt-no-draft" }, tr("no draft")),
    ),
    el(
      "span",
      { class: "dt-summary" },
      drafted ? tr("{n} of {total}", { n: roundSummary(run, step).accepted, total: drafted }) : "–",
      " → ",
      el("b", {}, `+${step.emit.length}`),
    ),
  );
}
