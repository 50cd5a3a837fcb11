// The steps of a run as CSV.
import { toCsv } from "../../../visualizers/shared/csv.mjs";
import { findDecidedToken } from "../../../visualizers/shared/record.mjs";

const COLUMNS = [
  "step",
  "sequence",
  "keep",
  "token_ids",
  "text",
  "model_logprob_nats",
  "used_logprob_nats",
  "rank_in_model",
  "model_entropy_bits",
  "used_entropy_bits",
  "logsumexp",
  "forward_passes",
  "elapsed_s",
  "second_token_id",
  "second_text",
  "second_model_logprob_nats",
];

/**
 * Return the most probable candidate other than the chosen token.
 * @param {Step} step
 * @param {number} last
 */
function findRunnerUp(step, last) {
  /** @param {Candidate} c */
  const value = (c) => c.raw_logprob ?? Number.NEGATIVE_INFINITY;
  /** @type {Candidate | null} */
  let best = null;
  for (const c of step.candidates)
    if (c.token_id !== last && (best === null || value(c) > value(best))) best = c;
  return best;
}

/**
 * Convert a recorded entropy from nats to bits; null if it is unknown.
 * @drawing
 * @param {number | null} nats
 */
const natsToBits = (nats) => (nats === null ? null : Number((nats / Math.log(2)).toFixed(4)));

/**
 * Return the same table that the command line writes. The page makes it itself because a trace may
 * be larger than the server accepts.
 * @computed engine.export.steps_csv.steps_csv
 * @param {Run} run
 */
export function csv(run) {
  /** @param {number[]} ids */
  const text = (ids) => ids.map((id) => run.pieces[id]).join("");
  const rows = run.steps.map((s) => {
    const last = findDecidedToken(s);
    /** @type {Partial<Candidate>} */
    const own = s.candidates.find((c) => c.token_id === last) || {};
    const second = findRunnerUp(s, last);
    return [
      s.index + 1,
      s.sequence + 1,
      s.keep,
      s.emit.join(" "),
      text(s.emit),
      own.raw_logprob,
      own.processed_logprob,
      own.rank === undefined ? "" : own.rank + 1,
      natsToBits(s.entropy),
      natsToBits((s.stages.at(-1) ?? s).entropy),
      s.logsumexp,
      s.forward_passes,
      s.elapsed_s,
      ...(second ? [second.token_id, text([second.token_id]), second.raw_logprob] : ["", "", ""]),
    ];
  });
  return toCsv(COLUMNS, rows);
}
