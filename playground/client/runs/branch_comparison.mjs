// Compares two related runs: where their texts diverge, and the candidates at that token.
import {
  candidatesOf,
  leadersOf,
  partingOf,
  partingSide,
  partingView,
  partsAfter,
} from "../../../visualizers/compare/divergence.mjs";
import { el } from "../../../visualizers/shared/dom.mjs";
import { textOfIds } from "../../../visualizers/shared/text.mjs";
import { tr } from "../../../visualizers/shared/tr.mjs";
import { isBeam } from "./branch_choices.mjs";
import { figureOf, nameOf, parentOf, rootOf } from "./related_runs.mjs";

const CONTINUED = tr("The best of all beams at this depth; ▸ is the text that was continued.");

// Follow a branch's prompt through the nodes of a search, up to one position.
function pathThrough(up, ids, place) {
  const path = new Set();
  for (let i = 0, above = -1; i <= place; i++) {
    const { pool } = up.steps[i].detail;
    const parent = above;
    const node = pool.find((n) => n.parent_id === parent && n.token_id === ids[i]);
    if (!node) break;
    path.add(node.node_id);
    above = node.node_id;
  }
  return path;
}

/**
 * Return the record of a token's position, from the run that wrote it or from the run it continues.
 * @param {Run} run
 */
function seen(run, at) {
  const own = at - run.prompt_ids.length;
  if (own >= 0) return [run, partingSide(run, own)];
  const up = parentOf(run);
  const token = { id: run.prompt_ids[at] };
  if (!up) return [run, { token, words: tr("What was seen there is not on this page.") }];
  const place = at - up.prompt_ids.length;
  const { step: index, kept, text } = run.parent;
  const step = up.steps[index];
  if (place > kept) return [run, { token, words: tr("Typed.") }];
  if (isBeam(step) && place >= 0) {
    const deep = up.steps[place];
    const path = pathThrough(up, run.prompt_ids.slice(up.prompt_ids.length), place);
    return [up, { token, step: deep, pool: leadersOf(deep), path, note: CONTINUED }];
  }
  if (place === kept) {
    // A typed text may contain tokens that the continued run never saw, so their texts are added.
    const owner = text === null ? up : { ...up, pieces: { ...up.pieces, ...run.pieces } };
    return [owner, { token, step, list: candidatesOf(up, step), chosen: token.id }];
  }
  if (place >= 0 && step.sequence) {
    const words = tr("Written by output {n} of the run it continues.", { n: step.sequence + 1 });
    return [up, { token, words }];
  }
  return seen(up, at);
}

const wholeOf = (run) => [...run.prompt_ids, ...(run.tokens[0] || []).map((t) => t.id)];

const leadOf = (same, common) =>
  same ? tr("Both texts are the same, token for token.") : partsAfter(common);

/**
 * Create one column of the comparison.
 * @param {Run} run
 */
function sideOf(run, ids, from, at, same) {
  const text = (a, b) => textOfIds(run, ids.slice(a, b));
  const over = run.status === "running" ? tr("Not there yet.") : tr("The text had ended.");
  const [owner, found] = at < ids.length ? seen(run, at) : [run, { words: over }];
  return el(
    "div",
    {},
    el("h4", {}, nameOf(run)),
    el(
      "p",
      { class: "fm-text" },
      el("span", { class: "same" }, text(from, at)),
      el("b", {}, text(at, at + 1)),
      text(at + 1),
    ),
    el("p", { class: "dp-note" }, figureOf(run)),
    same ? null : partingView(owner, found),
  );
}

/** Return the nodes that compare two runs. */
export function together(pair) {
  const ids = pair.map(wholeOf);
  const from = Math.min(...pair.map((run) => rootOf(run).prompt_ids.length));
  const parting = partingOf(ids[0], ids[1]);
  const same = parting === null;
  const at = parting ?? ids[0].length;
  return [
    el("p", { class: "cmp-lead" }, leadOf(same, at - from)),
    el(
      "div",
      { class: "cmp-sides" },
      pair.map((run, i) => sideOf(run, ids[i], from, at, same)),
    ),
  ];
}
