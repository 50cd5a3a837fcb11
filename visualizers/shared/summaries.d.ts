// Made from visualizers/summaries.schema.json by `npm run types`; a test compares the two.

/**
 * What the views show of a step and of the run up to it, by view: the values of their summary.py. A step has those of the run's strategy and of its own kind.
 */
export interface Shown {
  beam_tree?: BeamTreeSummary;
  contrastive?: ContrastiveSummary;
  candidates?: CandidateSummary;
  xray?: StageSummary;
  chart?: ChartSummary;
  draw?: DrawSummary;
  draft_timeline?: DraftSummary;
  filling?: FillingSummary;
  formula?: FormulaSummary;
  forward_timeline?: ForwardSummary;
  layer_heatmap?: LayerSummary;
  sentence?: SentenceSummary;
  served?: ServedSummary;
  text?: TextSummary;
  watermark?: WatermarkSummary;
}
export interface BeamTreeSummary {
  p: number[];
  model: (number | null)[];
  rest: number[];
  row: number;
  parting: number | null;
  best: number;
  died: number[];
  greedy: GreedyComparison | null;
}
/**
 * The winner against the greedy text.
 */
export interface GreedyComparison {
  path: number[];
  gain: number | null;
  times: number | null;
  paid: number;
}
export interface ContrastiveSummary {
  like: (number | null)[];
  gain: number;
  steps: number;
  changed: number;
}
/**
 * Probabilities of the recorded candidates, and where the draw fell.
 */
export interface CandidateSummary {
  raw: number[];
  processed: number[];
  rest_raw: number;
  rest_processed: number;
  drawn: boolean;
  needle: number | null;
}
/**
 * Entropies in bits, and the number of tokens that each processor removed.
 */
export interface StageSummary {
  entropy_model: number;
  entropy: number[];
  removed: number[];
  repeats: number[][];
}
/**
 * In bits.
 */
export interface ChartSummary {
  surprise: number | null;
  entropy: number | null;
  entropy_used: number | null;
  entropy_low?: number;
  entropy_high?: number;
}
/**
 * Empty for a step without a draw.
 */
export interface DrawSummary {
  strip?: [number, number][];
  others?: number;
  runners?: number[];
  ticks?: [number, string][];
  judged?: (number | null)[];
}
export interface DraftSummary {
  accepted: number;
  ratio: (number | null)[];
  mixture: (number | null)[];
  pace: number;
  most: number;
  places: [number, number, number][];
  figures: DraftFigures;
  plain: PlainFigures | null;
  same: boolean | null;
  weights: [number, number] | null;
}
export interface DraftFigures {
  tokens: number;
  rounds: number;
  tokens_per_target_pass: number;
  draft_passes: number;
  draft_length: number;
  accepted_per_round: number;
  acceptance_rate: number | null;
  draft_s: number;
  verify_s: number;
  draft_share: number;
  target_pass_s: number;
  tokens_per_s: number | null;
  cost_ratio: number;
  expected_speed_up: number | null;
}
/**
 * Speed of the plain run; no speed-up if a timing was disturbed.
 */
export interface PlainFigures {
  tokens_per_s: number;
  token_s: number;
  speed_up: number | null;
  why: string;
}
/**
 * Every place of the text after the prompt, after a pass of masked diffusion.
 */
export interface FillingSummary {
  /**
   * Token written at the place, else the guess of this pass, else null.
   */
  ids: (number | null)[];
  /**
   * Number of the pass that wrote it, from 1; 0 for a given token; null while hidden.
   */
  passes: (number | null)[];
  /**
   * The model's probability of the token.
   */
  p: (number | null)[];
  /**
   * Of the model's distribution at the place, in nats.
   */
  entropy: (number | null)[];
  /**
   * How often the guess changed.
   */
  changes: number[];
  /**
   * Number of hidden places.
   */
  hidden: number;
}
export interface FormulaSummary {
  lines: FormulaLine[];
}
/**
 * A formula; without operands it has no numbers. Some forms have further values.
 */
export interface FormulaLine {
  form: string;
  of?: number | null;
  with?: {
    [k: string]: unknown;
  };
  is?: string | null;
  [k: string]: unknown;
}
export interface ForwardSummary {
  rows: ForwardRow[];
  written: number;
  start: number | null;
  most: number | null;
  figures: ForwardFigures;
}
export interface ForwardRow {
  number: number | null;
  took_s: number | null;
  gone: number[];
}
export interface ForwardFigures {
  passes: number;
  aside: number;
  without_ids: number;
  read: number;
  rows: number;
  held: number;
  back: number;
  rollbacks: number;
  declared: number;
  steps: number;
  blind: number;
  tokens: number;
  left: number;
  tokens_per_pass: number | null;
}
/**
 * Entropies in bits, and the probability of the emitted token in every layer.
 */
export interface LayerSummary {
  entropy: number[];
  normed_entropy: number[];
  chance: number[];
}
/**
 * The reason for a step's word: a kind of sentence and what it names.
 */
export interface SentenceSummary {
  kind: string;
  word?: number | null;
  other?: number;
  share?: number;
  other_share?: number;
  filter?: string;
  layer?: number | null;
  drafter?: string;
  count?: number;
  kept?: number;
  end?: string;
  hits?: number;
  expected?: number;
  group?: number;
  before?: number;
  node?: number;
  path?: (SentenceSummary | null)[];
}
/**
 * What a server reported of a step: the probability seen, and bounds on the entropy in bits.
 */
export interface ServedSummary {
  seen: number;
  entropy_low: number;
  entropy_high: number;
  count: number;
}
/**
 * Probabilities of the emitted tokens, and figures of the texts.
 */
export interface TextSummary {
  p: (number | null)[];
  used: (number | null)[];
  bits: (number | null)[];
  own: TextFigures;
  tokens: number;
  forward_passes: number;
  tokens_per_s: number | null;
  first_token_s: number | null;
  others?: OtherText[];
}
export interface TextFigures {
  tokens: number;
  perplexity: number | null;
  rep_3: number;
}
/**
 * Another text of a beam search.
 */
export interface OtherText {
  token_ids: number[];
  p: (number | null)[];
  used: (number | null)[];
  bits: (number | null)[];
  score: number;
  group: number;
  own: TextFigures;
  output: number | null;
}
export interface WatermarkSummary {
  hits: number;
  flips: number;
  share: number;
  z: number | null;
  verdict: Verdict | null;
  threshold: number;
}
export interface Verdict {
  num_tokens_scored: number;
  trials: number;
  hits: number;
  expected_fraction: number;
  fraction: number;
  z_score: number;
  distinct_trials: number;
  distinct_hits: number;
  distinct_z_score: number;
  p_value: number;
  p_value_normal: number;
  z_threshold: number;
  prediction: boolean;
  doubtful: boolean;
  chance: number;
  by_chance: ChanceHits;
}
export interface ChanceHits {
  expected: number;
  two_sd_below: number;
  two_sd_above: number;
  needed: number;
}
