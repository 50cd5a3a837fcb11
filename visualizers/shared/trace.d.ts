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
  timing: Timing;
  metrics: {
    [k: string]: number;
  };
  assistant: ModelInfo | null;
  eos_token_ids: number[];
  special_token_ids: number[];
  notes: string[];
  parent: Parent | null;
  messages:
    | {
        [k: string]: unknown;
      }[]
    | null;
  template: {
    [k: string]: unknown;
  } | null;
  prompt_turns: PromptTurn[];
  literal_tokens: number;
  method: MethodInfo | null;
  emitted: EmittedToken[][];
  grammar: GrammarText[];
  thinking: Thinking | null;
  media: MediaInfo[];
  served: ServedInfo | null;
  speech: {
    [k: string]: unknown;
  } | null;
  templates: {
    [k: string]: {
      template: string;
      values: {
        [k: string]: string;
      };
    };
  };
}
export interface ModelInfo {
  id: string;
  revision: string | null;
  dtype: string;
  device: string;
  vocab_size: number;
  layers: number;
  is_encoder_decoder: boolean;
  weights: HeldWeights | null;
  host: string;
}
export interface HeldWeights {
  quantization: string | null;
  bnb_4bit_quant_type: string;
  bnb_4bit_use_double_quant: boolean;
  bnb_4bit_compute_dtype: string | null;
  device_map: string | null;
  max_memory: {
    [k: string]: string;
  } | null;
  layers_on: {
    [k: string]: number;
  };
  backend: string;
  agreement: Agreement | null;
}
export interface Agreement {
  tokens: number;
  same_top: number;
  kl: number;
  perplexity: number;
  torch_perplexity: number;
}
export interface Step {
  index: number;
  keep: number;
  emit: number[];
  candidates: Candidate[];
  stages: Stage[];
  detail:
    | DrawDetail
    | BeamDetail
    | DraftDetail
    | LayerDetail
    | ContrastiveDetail
    | WatermarkDetail
    | ForwardDetail
    | ServedDetail
    | FillDetail
    | null;
  logsumexp: number | null;
  entropy: number | null;
  forward_passes: number;
  elapsed_s: number;
  sequence: number;
}
export interface Candidate {
  token_id: number;
  raw_logprob: number | null;
  processed_logprob: number | null;
  rank: number;
  removed_by: string | null;
}
export interface Stage {
  name: string;
  kept: number;
  kept_mass: number;
  entropy: number;
  state: number | null;
}
export interface DrawDetail {
  kind: "draw";
  racers: Racer[];
}
export interface Racer {
  token_id: number;
  probability: number;
  noise: number;
  arrival: number;
}
export interface BeamDetail {
  kind: "beam";
  pool: BeamNode[];
  heap: Hypothesis[];
  best_running: number | null;
  worst_finished: number | null;
  stopping: boolean;
  winner_node_id: number | null;
  stop_reason: string;
  greedy: GreedyPath | null;
}
export interface BeamNode {
  node_id: number;
  parent_id: number;
  token_id: number;
  logprob: number | null;
  sum_logprobs: number;
  score: number;
  rank: number;
  margin: number;
  group: number;
  diversity_penalty: number;
  fate: string;
  penalised_by: number[];
  reason: string;
  arrival: number | null;
}
export interface Hypothesis {
  node_id: number;
  sum_logprobs: number;
  length: number;
  score: number;
  group: number;
}
export interface GreedyPath {
  token_ids: number[];
  sum_logprobs: number;
  score: number;
  left_at: number | null;
}
export interface DraftDetail {
  kind: "draft";
  draft_length: number;
  requested_length: number;
  length_reason: string;
  tokens: DraftToken[];
  final_token_id: number;
  final_source: string;
  residual: [number, number][];
  draft_forwards: number;
  draft_s: number;
  verify_s: number;
  match: [number, number, number] | null;
  draft_own: string[];
  reencoded: number[];
  lost: string;
  exit_layer: number | null;
  threshold: number | null;
  drafter: string;
  tree: DraftNode[];
  report: DraftReport | null;
}
export interface DraftToken {
  token_id: number;
  p: number;
  q: number | null;
  u: number | null;
  status: string;
}
export interface DraftNode {
  token_id: number;
  parent: number | null;
  q: number;
  p: number | null;
  status: string;
}
export interface DraftReport {
  checked: number;
  parting: Parting | null;
  check_s: number;
  plain_tokens: number;
  plain_s: number;
  plain_identical: boolean | null;
  distributions: DistributionCheck[];
  others: number | null;
  processor_share: number | null;
  lines: LineDraft[];
}
export interface Parting {
  position: number;
  emitted_id: number;
  expected_id: number;
  emitted_logit: number;
  expected_logit: number;
  gap: number;
  near_tie: boolean;
}
export interface DistributionCheck {
  length: number;
  runs: number;
  chi_square: number;
  degrees: number;
  p_value: number;
  bins: [number[], number, number][];
}
export interface LineDraft {
  length: number;
  tokens: number;
  passes: number;
  draft_passes: number;
}
export interface LayerDetail {
  kind: "layer";
  layers: LayerReading[];
  candidate_layers: number[];
  premature_layer: number;
  kept: number;
  final_top: [number, number][];
  contrast_top: [number, number][];
  draw: DrawDetail | null;
}
export interface LayerReading {
  layer: number;
  divergence: number | null;
  entropy: number;
  rank: number;
  logprob: number | null;
  top: [number, number][];
  normed_entropy: number;
  normed_rank: number;
  normed_logprob: number | null;
  normed_top: [number, number][];
  normed_divergence: number | null;
}
export interface ContrastiveDetail {
  kind: "contrastive";
  options: ContrastiveOption[];
  chosen: number;
}
export interface ContrastiveOption {
  token_id: number;
  probability: number;
  confidence: number;
  max_cosine: number;
  degeneration_penalty: number;
  position: number;
  score: number;
}
export interface WatermarkDetail {
  kind: "watermark";
  scheme: string;
  is_green: boolean | null;
  green_fraction: number | null;
  bias: number;
  context_ids: number[];
  scored: boolean;
  reason: string;
  fresh: boolean;
  g_values: number[];
  green_candidates: number[];
  draw: DrawDetail | null;
  marked: boolean;
  expected: number;
  chance: number;
}
export interface ForwardDetail {
  kind: "forward";
  passes: ForwardPass[];
  declared: number;
}
export interface ForwardPass {
  rows: number;
  read: number;
  cached: number;
  dropped: number;
  length: number;
  elapsed_s: number;
  aside: boolean;
}
export interface ServedDetail {
  kind: "served";
  distribution: string;
  unseen_low: number;
  unseen_high: number;
  entropy_low: number;
  entropy_high: number;
  merged: boolean;
  draw: DrawDetail | null;
  draw_error: number;
}
export interface FillDetail {
  kind: "fill";
  block: number;
  length: number;
  given: [number, number][];
  guesses: PlaceGuess[];
  report: FillReport | null;
}
export interface PlaceGuess {
  position: number;
  token_id: number;
  p: number;
  entropy: number;
  written: boolean;
}
export interface FillReport {
  filled: TextMeasure;
  plain: TextMeasure;
}
export interface TextMeasure {
  token_ids: number[];
  passes: number;
  perplexity: number;
  distinct_2: number;
}
export interface Output {
  token_ids: number[];
  text: string;
  finish_reason: "eos" | "length" | "stop" | "cancelled" | "error";
  score: number | null;
}
export interface Timing {
  total_s: number;
  first_token_s: number | null;
  load_s: number;
  queue_s: number;
}
export interface Parent {
  run_id: string;
  step: number;
  kept: number;
  token_ids: number[];
  text: string | null;
  earlier: number;
}
export interface PromptTurn {
  role: string;
  start: number;
  end: number;
}
export interface MethodInfo {
  name: string;
  source: string;
  sha256: string | null;
  revision: string | null;
}
export interface EmittedToken {
  logprob: number | null;
  rank: number;
  entropy: number;
  top: [number, number][];
}
export interface GrammarText {
  tokens: GrammarToken[];
  known: number;
  log_allowed: number;
  hardest: number | null;
}
export interface GrammarToken {
  allowed: number | null;
  wanted: number | null;
  wanted_p: number | null;
  fits: string;
  expected: string;
  forced: boolean;
  may_end: boolean;
  odd_split: boolean;
}
export interface Thinking {
  begin: string;
  close: string;
  texts: ThinkingSection[][];
  forced: number[];
}
export interface ThinkingSection {
  start: number;
  end: number;
  closed: boolean;
  forced: number | null;
}
export interface MediaInfo {
  kind: string;
  sha256: string;
  example: string | null;
  width: number | null;
  height: number | null;
  seconds: number | null;
  rate: number | null;
  preview: string;
  peaks: number[];
}
export interface ServedInfo {
  server: string;
  measured: boolean;
  choice: string;
  completion_tokens: number | null;
  prompt_tokens: number | null;
  host: string;
}
