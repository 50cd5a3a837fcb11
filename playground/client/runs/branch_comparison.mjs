// Compares two related runs: where their texts diverge, and the candidates at that token.
import {
  createSideView,
  describeSide,
  divergenceText,
  findDivergence,
  listBestBeams,
  topCandidates,
} from "../../../visualizers/compare/divergence.mjs";
import { el } from "../../../visualizers/shared/dom.mjs";
import { beamPool } from "../../../visualizers/shared/record.mjs";
import { tokensText } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { isBeamStep } from "./branch_choices.mjs";
import { branchName, parentRun, rootRun, runFigure } from "./related_runs.mjs";

/** @import { DivergenceSide } from "../../../visualizers/compare/divergence.mjs" */

const BEAM_NOTE = tr("The best of all beams at this depth; ▸ is the text that was continued.");

/**
 * Return the ids of the nodes through which a branch's prompt goes, up to one position.
 * @param {Run} up the search
 * @param {number[]} ids
 * @param {number} place
 */
function findSearchPath(up, ids, place) {
  const path = new Set();
  for (let i = 0, above = -1; i <= place; i++) {
    const parent = above;
    const node = beamPool(up.steps[i]).find((n) => n.parent_id === parent && n.token_id === ids[i]);
    if (!node) break;
    path.add(node.node_id);
    above = node.node_id;
  }
  return path;
}

/**
 * Return the record of a token's position, from the run that wrote it or from the run it continues.
 * @param {Run} run
 * @param {number} at
 * @returns {[Run, DivergenceSide]}
 */
function findEvidence(run, at) {
  const own = at - run.prompt_ids.length;
  if (own >= 0) return [run, describeSide(run, own)];
  const up = parentRun(run);
  const token = { id: run.prompt_ids[at] };
  if (!up || !run.parent)
    return [run, { token, words: tr("What was seen there is not on this page.") }];
  const place = at - up.prompt_ids.length;
  const { step: index, kept, text } = run.parent;
  const step = up.steps[index];
  if (place > kept) return [run, { token, words: tr("Typed.") }];
  if (isBeamStep(step) && place >= 0) {
    const deep = up.steps[place];
    const path = findSearchPath(up, run.prompt_ids.slice(up.prompt_ids.length), place);
    return [up, { token, step: deep, pool: listBestBeams(deep), path, note: BEAM_NOTE }];
  }
  if (place === kept) {
    // A typed text may contain tokens that the continued run never saw, so their texts are added.
    const owner = text === null ? up : { ...up, pieces: { ...up.pieces, ...run.pieces } };
    return [owner, { token, step, list: topCandidates(up, step), chosen: token.id }];
  }
  if (place >= 0 && step.sequence) {
    const words = tr("Written by output {n} of the run it continues.", { n: step.sequence + 1 });
    return [up, { token, words }];
  }
  return findEvidence(up, at);
}

/** @param {Run} run */
const allTokenIds = (run) => [...run.prompt_ids, ...(run.tokens[0] || []).map((t) => t.id)];

/**
 * @param {boolean} same
 * @param {number} common
 */
const leadSentence = (same, common) =>
  same ? tr("Both texts are the same, token for token.") : divergenceText(common);

/**
 * Create one column of the comparison.
 * @param {Run} run
 * @param {number[]} ids of its prompt and its text
 * @param {number} from
 * @param {number} at
 * @param {boolean} same
 */
function createSide(run, ids, from, at, same) {
  /**
   * @param {number} a
   * @param {number} [b]
   */
  const text = (a, b) => tokensText(run, ids.slice(a, b));
  const over = run.status === "running" ? tr("Not there yet.") : tr("The text had ended.");
  const [owner, found] = at < ids.length ? findEvidence(run, at) : [run, { words: over }];
  return el(
    "div",
    {},
    el("h4", {}, branchName(run)),
    el(
      "p",
      { class: "fm-text" },
      el("span", { class: "same" }, text(from, at)),
      el("b", {}, text(at, at + 1)),
      text(at + 1),
    ),
    el("p", { class: "dp-note" }, runFigure(run)),
    same ? null : createSideView(owner, found),
  );
}

/**
 * Return the nodes that compare two runs.
 * @param {Run[]} pair
 */
export function createComparison(pair) {
  const ids = pair.map(allTokenIds);
  const from = Math.min(...pair.map((run) => rootRun(run).prompt_ids.length));
  const parting = findDivergence(ids[0], ids[1]);
  const same = parting === null;
  const at = parting ?? ids[0].length;
  return [
    el("p", { class: "cmp-summary" }, leadSentence(same, at - from)),
    el(
      "div",
      { class: "cmp-sides" },
      pair.map((run, i) => createSide(run, ids[i], from, at, same)),
    ),
  ];
}
