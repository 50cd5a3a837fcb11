// Made from docs/trace.schema.json by `npm run types`; a test compares the two.

export interface DecodingTrace {
  schema: "decoding-trace/1";
  strategy: string;
  config: {
    [k: string]: unknown;
  };
  model: ModelInfo;
  versions: {
    [k: string]: string;
  };
  seed: number;
  prompt: string | null;
  prompt_ids: number[];
  pieces: {
    [k: string]: string;
  };
  steps: Step[];
  outputs: Output[];
  timing?: Timing;
  metrics?: {
    [k: string]: number | null;
  };
  assistant?: ModelInfo | null;
  eos_token_ids?: number[];
  notes?: string[];
  parent?: Parent | null;
}
export interface ModelInfo {
  id: string;
  revision?: string | null;
  dtype?: string;
  device?: string;
  vocab_size?: number;
  layers?: number;
  is_encoder_decoder?: boolean;
}
export interface Step {
  index: number;
  keep: number;
  emit: number[];
  candidates?: Candidate[];
  stages?: Stage[];
  detail?: DrawDetail | BeamDetail | DraftDetail | LayerDetail | ContrastiveDetail | WatermarkDetail | null;
  logsumexp?: number | null;
  entropy?: number | null;
  forward_passes?: number;
  elapsed_s?: number | null;
  sequence?: number;
}
export interface Candidate {
  token_id: number;
  raw_logprob: number | null;
  processed_logprob: number | null;
  rank: number;
  removed_by?: string | null;
}
export interface Stage {
  name: string;
  kept: number;
  kept_mass: number | null;
  entropy: number | null;
}
export interface DrawDetail {
  kind?: "draw";
  racers: Racer[];
}
export interface Racer {
  token_id: number;
  probability: number | null;
  noise: number | null;
  arrival: number | null;
}
export interface BeamDetail {
  kind?: "beam";
  pool: BeamNode[];
  heap: Hypothesis[];
  best_running: (number | null) | null;
  worst_finished: (number | null) | null;
  stopping: boolean;
  winner_node_id?: number | null;
  stop_reason?: string;
  greedy?: GreedyPath | null;
}
export interface BeamNode {
  node_id: number;
  parent_id: number;
  token_id: number;
  logprob: number | null;
  sum_logprobs: number | null;
  score: number | null;
  rank: number;
  margin: number | null;
  group: number;
  diversity_penalty: number | null;
  fate: string;
  penalised_by?: number[];
  reason?: string;
  arrival?: (number | null) | null;
}
export interface Hypothesis {
  node_id: number;
  sum_logprobs: number | null;
  length: number;
  score: number | null;
  group?: number;
}
export interface GreedyPath {
  token_ids: number[];
  sum_logprobs: number | null;
  score: number | null;
  left_at: number | null;
}
export interface DraftDetail {
  kind?: "draft";
  draft_length: number;
  requested_length: number;
  length_reason: string;
  tokens: DraftToken[];
  final_token_id: number;
  final_source: string;
  residual: [unknown, unknown][];
  draft_forwards: number;
  draft_s: number | null;
  verify_s: number | null;
  match?: [unknown, unknown, unknown] | null;
  draft_own?: string[];
  reencoded?: number[];
  lost?: string;
  exit_layer?: number | null;
  drafter?: string;
  report?: DraftReport | null;
}
export interface DraftToken {
  token_id: number;
  p: number | null;
  q: (number | null) | null;
  u: (number | null) | null;
  status: string;
}
export interface DraftReport {
  checked: number;
  parting: Parting | null;
  check_s: number | null;
  plain_tokens: number;
  plain_s: number | null;
  plain_identical: boolean | null;
  distributions?: DistributionCheck[];
}
export interface Parting {
  position: number;
  emitted_id: number;
  expected_id: number;
  emitted_logit: number | null;
  expected_logit: number | null;
  gap: number | null;
  near_tie: boolean;
}
export interface DistributionCheck {
  length: number;
  runs: number;
  chi_square: number | null;
  degrees: number;
  p_value: number | null;
  bins: [unknown, unknown, unknown][];
}
export interface LayerDetail {
  kind?: "layer";
  layers: LayerReading[];
  candidate_layers: number[];
  premature_layer: number;
  kept: number;
  final_top: [unknown, unknown][];
  contrast_top: [unknown, unknown][];
}
export interface LayerReading {
  layer: number;
  divergence: (number | null) | null;
  entropy: number | null;
  rank: number;
  logprob: number | null;
  top: [unknown, unknown][];
  normed_entropy: number | null;
  normed_rank: number;
  normed_logprob: number | null;
  normed_top: [unknown, unknown][];
  normed_divergence?: (number | null) | null;
}
export interface ContrastiveDetail {
  kind?: "contrastive";
  options: ContrastiveOption[];
  chosen: number;
}
export interface ContrastiveOption {
  token_id: number;
  probability: number | null;
  confidence: number | null;
  max_cosine: number | null;
  degeneration_penalty: number | null;
  position: number;
  score: number | null;
}
export interface WatermarkDetail {
  kind?: "watermark";
  scheme: string;
  is_green: boolean | null;
  green_fraction: (number | null) | null;
  bias: number | null;
  context_ids: number[];
  scored: boolean;
  reason?: string;
  fresh?: boolean;
  g_values?: number[];
  green_candidates?: number[];
  draw?: DrawDetail | null;
  marked?: boolean;
  expected?: number | null;
  chance?: number | null;
}
export interface Output {
  token_ids: number[];
  text: string;
  finish_reason: "eos" | "length" | "stop" | "cancelled" | "error";
  score?: (number | null) | null;
}
export interface Timing {
  total_s?: number | null;
  first_token_s?: (number | null) | null;
  load_s?: number | null;
  queue_s?: number | null;
}
export interface Parent {
  run_id: string;
  step: number;
  kept: number;
  token_ids: number[];
  text?: string | null;
}
