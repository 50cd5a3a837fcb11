// Decides a sampled step under other settings, from its scores and the noise of its draw.
import { SAMPLING_FILTERS, softmax } from "./sampling_filters.mjs";

/** @import { Cut, Left } from "./sampling_filters.mjs" */

// As many as in the server's answers.
const MAX_KEPT = 8;
const MAX_REMOVED = 2;
const RACE_EDGE = 1e-5;

/**
 * What decides a step.
 * @typedef {object} StepScores
 * @property {Float32Array} logits of the model, by token id
 * @property {number} logsumexp of these logits
 * @property {Left} left the tokens after the filters before those of sampling
 * @property {Float32Array | null} noise of the draw, by token id; null if it cannot be repeated
 * @property {Record<string, string>} removed likely token -> the earlier filter that removed it
 * @property {Record<string, string>} pieces texts of the tokens that may be shown
 */

/**
 * A step under some settings: a Preview without what belongs to its place in the run.
 * @typedef {Pick<Preview, "rows" | "rest_own" | "rest_used" | "chosen" | "needle">} Decision
 */

/**
 * A filter that acted, with the tokens that it got and left.
 * @typedef {{ name: string, before: Left, after: Left, cut: Cut }} Applied
 */

/**
 * Return what decides a step, from the arrays of the server. The tokens are sorted once, so that
 * a moved dial needs no sorting.
 * @param {Float32Array} logits by token id
 * @param {Float32Array} scores by token id
 * @param {Float32Array | null} noise by token id
 * @param {Pick<StepScores, "removed" | "pieces">} about
 * @returns {StepScores}
 * @computed torch.logsumexp
 */
export function createStepScores(logits, scores, noise, about) {
  const ids = new Uint32Array(scores.length).map((_, id) => id);
  const possible = ids.filter((id) => scores[id] > Number.NEGATIVE_INFINITY);
  possible.sort((a, b) => scores[b] - scores[a]);
  const left = { ids: possible, scores: Float32Array.from(possible, (id) => scores[id]) };
  return { logits, logsumexp: logsumexpOf(logits), left, noise, ...about };
}

/** @param {Float32Array} logits */
function logsumexpOf(logits) {
  const most = logits.reduce((a, b) => Math.max(a, b));
  return most + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0));
}

/**
 * Decide a step as the engine does: filters in their order, then the race of the draw. Null if a
 * token is too close to an edge, if its text is unknown, or if a value is not allowed: the server
 * decides then.
 * @param {StepScores} step
 * @param {Record<string, any>} values of the sampling parameters; "" and null are off
 * @param {number} recorded the token that the run wrote
 * @returns {Decision | null}
 * @computed engine.inspection.what_if_report.build_what_if_report
 */
export function decideStep(step, values, recorded) {
  const applied = applyFilters(step.left, values);
  if (!applied) return null;
  const left = applied.at(-1)?.after ?? step.left;
  const probs = softmax(left.scores);
  const winner = step.noise && findWinner(left, probs, step.noise);
  if (winner?.tied) return null;
  const wanted = winner ? [recorded, winner.id] : [recorded];
  const listed = listTokens(step, applied, left, probs, wanted);
  if (!listed || isDoubtful(applied, listed, (id, score) => winner?.loses(id, score) ?? false))
    return null;
  return { ...listed, chosen: winner?.id ?? null, needle: winner?.needle ?? null };
}

/**
 * Return the filters that act, null if a value is not allowed.
 * @param {Left} left
 * @param {Record<string, any>} values
 */
function applyFilters(left, values) {
  /** @type {Applied[]} */
  const applied = [];
  let before = left;
  for (const { name, parameter, acts, allows, cut: decide } of SAMPLING_FILTERS) {
    const value = values[parameter] ?? "";
    if (value === "") continue;
    if (typeof value !== "number" || !allows(value)) return null;
    if (!acts(value)) continue;
    /** @type {Cut} */
    const cut = decide?.(before, value) ?? { kept: before.ids.length, doubtful: [] };
    const after = decide ? keepTokens(before, cut) : divideScores(before, value);
    applied.push({ name, before, after, cut });
    before = after;
  }
  return applied;
}

/**
 * @param {Left} left
 * @param {number} temperature
 */
function divideScores({ ids, scores }, temperature) {
  // A Float32Array rounds each quotient as the engine does.
  const divisor = Math.fround(temperature);
  return { ids, scores: scores.map((score) => score / divisor) };
}

/**
 * @param {Left} left
 * @param {Cut} cut
 */
function keepTokens({ ids, scores }, { kept }) {
  if (typeof kept === "number")
    return { ids: ids.subarray(0, kept), scores: scores.subarray(0, kept) };
  return { ids: ids.filter((_, i) => kept[i]), scores: scores.filter((_, i) => kept[i]) };
}

/**
 * Run the exponential race: the token with the smallest noise / probability wins.
 * @param {Left} left
 * @param {Float64Array} probs
 * @param {Float32Array} noise by token id
 */
function findWinner({ ids, scores }, probs, noise) {
  let [place, pace, second] = [0, -1, -1];
  for (let i = 0; i < ids.length; i++) {
    const own = probs[i] / noise[ids[i]];
    if (own > pace) [place, pace, second] = [i, own, pace];
    else if (own > second) second = own;
  }
  const id = ids[place];
  const lead = scores[place] - Math.log(noise[id]);
  return {
    id,
    needle: 1 - Math.exp(-1 / pace),
    tied: second >= pace * (1 - RACE_EDGE),
    /** @type {(id: number, score: number) => boolean} whether a token would have won instead */
    loses: (id, score) => score - Math.log(noise[id]) >= lead,
  };
}

/**
 * Return the rows of a step, null if the text of one is unknown.
 * @param {StepScores} step
 * @param {Applied[]} applied
 * @param {Left} left
 * @param {Float64Array} probs
 * @param {number[]} wanted tokens that are listed in any case
 */
function listTokens({ logits, logsumexp, removed, pieces }, applied, left, probs, wanted) {
  const earlier = Object.keys(removed).map(Number);
  const found = new Set([...left.ids.subarray(0, MAX_KEPT), ...wanted, ...earlier]);
  for (const one of applied) for (const id of removedBy(one, logits)) found.add(id);
  const rows = [...found].map((token_id) => {
    const place = left.ids.indexOf(token_id);
    const by = applied.find(({ before, after }) => has(before, token_id) && !has(after, token_id));
    return {
      token_id,
      own: Math.exp(logits[token_id] - logsumexp),
      used: place < 0 ? 0 : probs[place],
      removed: place < 0 ? (by?.name ?? removed[token_id] ?? null) : null,
    };
  });
  if (rows.some(({ token_id }) => !(token_id in pieces))) return null;
  rows.sort((a, b) => b.used - a.used || b.own - a.own);
  return {
    rows,
    rest_own: Math.max(0, 1 - rows.reduce((total, row) => total + row.own, 0)),
    rest_used: Math.max(0, 1 - rows.reduce((total, row) => total + row.used, 0)),
  };
}

/**
 * @param {Left} left
 * @param {number} id
 */
const has = ({ ids }, id) => ids.includes(id);

/**
 * Return the tokens that a filter removed and that are likeliest in the model.
 * @param {Applied} applied
 * @param {Float32Array} logits
 */
function removedBy({ before, cut: { kept } }, logits) {
  const isRemoved = (/** @type {number} */ place) =>
    typeof kept === "number" ? place >= kept : !kept[place];
  /** @type {number[]} */
  const best = [];
  for (const [place, id] of before.ids.entries()) {
    if (!isRemoved(place)) continue;
    if (best.length === MAX_REMOVED && logits[id] <= logits[best[MAX_REMOVED - 1]]) continue;
    best.push(id);
    best.sort((a, b) => logits[b] - logits[a]);
    best.length = Math.min(best.length, MAX_REMOVED);
  }
  return best;
}

/**
 * Return whether a token close to a filter's edge is listed, or could win the race.
 * @param {Applied[]} applied
 * @param {{ rows: PreviewRow[] }} listed
 * @param {(id: number, score: number) => boolean} wins
 */
const isDoubtful = (applied, { rows }, wins) =>
  applied.some(({ before, cut }) =>
    cut.doubtful.some((place) => {
      const id = before.ids[place];
      return rows.some(({ token_id }) => token_id === id) || wins(id, before.scores[place]);
    }),
  );
