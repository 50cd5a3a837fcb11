// The filters of sampling, as the engine applies them, for a step that the page decides by itself.
// The tokens are in descending order of their scores, which all of these filters keep. Scores are
// float32 as in the engine. Sums are not the engine's to the last digit, so a token that is very
// close to a filter's edge is noted as doubtful.

/**
 * The tokens that are left, most likely first.
 * @typedef {object} Left
 * @property {Uint32Array} ids
 * @property {Float32Array} scores
 */

/**
 * What a filter does: it keeps the first `kept` tokens, or those with a 1 in `kept`. The tokens at
 * the places `doubtful` are so close to the edge that the engine may treat them differently.
 * @typedef {{ kept: number | Uint8Array, doubtful: number[] }} Cut
 */

const EDGE = 1e-5;
const MASS_EDGE = 1e-6;

/**
 * Return the probabilities of scores in descending order. Every filter of the page needs them.
 * @param {Float32Array} scores
 * @computed torch.softmax
 */
export function softmax(scores) {
  const probs = new Float64Array(scores.length);
  let sum = 0;
  for (let i = 0; i < scores.length; i++) {
    probs[i] = Math.exp(scores[i] - scores[0]);
    sum += probs[i];
  }
  for (let i = 0; i < probs.length; i++) probs[i] /= sum;
  return probs;
}

/** @param {Float64Array} probs */
function entropyOf(probs) {
  let sum = 0;
  for (const p of probs) if (p > 0) sum -= p * Math.log(p);
  return sum;
}

/**
 * Keep the tokens of at least a probability, the first one in any case.
 * @param {Float64Array} probs in descending order
 * @param {number} least
 * @returns {Cut}
 */
function keepAtLeast(probs, least) {
  let kept = 1;
  while (kept < probs.length && (probs[kept] >= least || probs[kept] === probs[0])) kept++;
  return { kept, doubtful: nearEdge(probs, kept, (p) => Math.abs(p - least) <= EDGE * least) };
}

/**
 * Return the places next to an edge for which a test holds, on both sides of it.
 * @param {Float32Array | Float64Array | Uint32Array} values
 * @param {number} edge the first place behind it
 * @param {(value: number) => boolean} isNear
 */
function nearEdge(values, edge, isNear) {
  const found = [];
  for (let i = edge - 1; i > 0 && isNear(values[i]); i--) found.push(i);
  for (let i = edge; i < values.length && isNear(values[i]); i++) found.push(i);
  return found;
}

/**
 * @param {Left} left
 * @param {number} k
 * @returns {Cut}
 */
function topK({ scores }, k) {
  const least = scores[Math.min(k, scores.length) - 1];
  let kept = Math.min(k, scores.length);
  while (kept < scores.length && scores[kept] === least) kept++;
  const isNear = (/** @type {number} */ s) =>
    s !== least && Math.abs(s - least) <= EDGE * Math.max(1, Math.abs(least));
  return { kept, doubtful: nearEdge(scores, kept, isNear) };
}

/**
 * @param {Left} left
 * @param {number} mass
 * @returns {Cut}
 */
function topP({ scores }, mass) {
  const probs = softmax(scores);
  const doubtful = [];
  let kept = probs.length;
  let tail = 0;
  for (let i = probs.length - 1; i > 0; i--) {
    tail += probs[i];
    if (Math.abs(tail - (1 - mass)) <= MASS_EDGE) doubtful.push(i);
    if (tail <= 1 - mass) kept = i;
    else if (tail > 1 - mass + MASS_EDGE) break;
  }
  // The engine's sort orders tokens of equal scores at will.
  const edge = scores[kept];
  if (scores[kept - 1] === edge)
    doubtful.push(...nearEdge(scores, kept, (score) => score === edge));
  return { kept, doubtful };
}

/**
 * @param {Left} left
 * @param {number} share
 */
const minP = ({ scores }, share) => {
  const probs = softmax(scores);
  return keepAtLeast(probs, share * probs[0]);
};

/**
 * @param {Left} left
 * @param {number} mass
 * @returns {Cut}
 */
function typical({ scores }, mass) {
  const probs = softmax(scores);
  const entropy = entropyOf(probs);
  const best = Math.log(probs[0]) - scores[0];
  const far = new Float64Array(scores).map((score) => Math.abs(score + best + entropy));
  const order = sortByDistance(
    far,
    scores.findIndex((score) => score + best + entropy < 0),
  );
  let sum = 0;
  let last = 0;
  while (last < order.length - 1 && sum + probs[order[last]] < mass) sum += probs[order[last++]];
  const reached = sum + probs[order[last]];
  const limit = far[order[last]];
  const kept = new Uint8Array(far.length);
  for (let i = 0; i < far.length; i++) kept[i] = far[i] <= limit ? 1 : 0;
  const isNear = (/** @type {number} */ place) => Math.abs(far[place] - limit) <= EDGE;
  const doubtful = nearEdge(order, last, isNear).filter((at) => at !== last);
  // A mass this close to the limit makes the last token itself doubtful, too.
  const close = Math.min(Math.abs(sum - mass), Math.abs(reached - mass)) <= MASS_EDGE;
  if (close) doubtful.push(last, Math.min(last + 1, order.length - 1));
  return { kept, doubtful: doubtful.map((at) => order[at]) };
}

/**
 * Return the places in ascending order of distances that fall down to a place and rise from it on.
 * @param {Float64Array} far
 * @param {number} rise -1 if they only fall
 */
function sortByDistance(far, rise) {
  let right = rise < 0 ? far.length : rise;
  let left = right - 1;
  const order = new Uint32Array(far.length);
  for (let i = 0; i < order.length; i++)
    order[i] = left < 0 || far[right] < far[left] ? right++ : left--;
  return order;
}

/**
 * @param {Left} left
 * @param {number} epsilon
 */
const epsilonCutoff = ({ scores }, epsilon) => keepAtLeast(softmax(scores), epsilon);

/**
 * @param {Left} left
 * @param {number} epsilon
 */
function etaCutoff({ scores }, epsilon) {
  const probs = softmax(scores);
  return keepAtLeast(probs, Math.min(epsilon, Math.sqrt(epsilon) * Math.exp(-entropyOf(probs))));
}

/**
 * @typedef {object} SamplingFilter
 * @property {string} name as in the record
 * @property {string} parameter
 * @property {(value: number) => boolean} acts whether it acts at a value
 * @property {(value: number) => boolean} allows whether it can have a value
 * @property {(left: Left, value: number) => Cut} [cut] missing if it removes nothing
 */

const isShare = (/** @type {number} */ x) => x >= 0 && x <= 1;

/**
 * The filters in the order of the engine. The page applies them, because its picture follows a dial.
 * @type {SamplingFilter[]}
 * @computed engine.inspection.processors.build_processors
 */
export const SAMPLING_FILTERS = [
  {
    name: "Temperature",
    parameter: "temperature",
    acts: (x) => x !== 1,
    allows: (x) => x >= 0.001 && x <= 100,
  },
  {
    name: "TopK",
    parameter: "top_k",
    acts: (x) => x > 0,
    allows: (x) => Number.isInteger(x) && x >= 0,
    cut: topK,
  },
  {
    name: "TopP",
    parameter: "top_p",
    acts: (x) => x < 1,
    allows: (x) => x > 0 && x <= 1,
    cut: topP,
  },
  { name: "MinP", parameter: "min_p", acts: () => true, allows: isShare, cut: minP },
  {
    name: "Typical",
    parameter: "typical_p",
    acts: (x) => x < 1,
    allows: (x) => x > 0 && x <= 1,
    cut: typical,
  },
  {
    name: "Epsilon",
    parameter: "epsilon_cutoff",
    acts: (x) => x > 0,
    allows: (x) => x >= 0 && x < 1,
    cut: epsilonCutoff,
  },
  {
    name: "Eta",
    parameter: "eta_cutoff",
    acts: (x) => x > 0,
    allows: (x) => x >= 0 && x < 1,
    cut: etaCutoff,
  },
];
