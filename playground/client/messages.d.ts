// Made from playground/messages.schema.json by `npm run types`; a test compares the two.

/**
 * What the server tells the page of a run: numbered, each run's from 0 on, what goes on meanwhile, and the whole of it on request.
 */
export type Message = NumberedMessage | ProgressMessage | StateMessage;
/**
 * One message of a run.
 */
export type NumberedMessage = StartMessage | DeltaMessage | FinishMessage | FailMessage;
/**
 * A conversation, as apply_chat_template takes it.
 */
export type ChatMessages = {
  role: "system" | "user" | "assistant" | "tool";
  content?: string | null;
  [k: string]: unknown;
}[];
/**
 * Which output's text, how much of it stays, and what follows.
 *
 * @minItems 3
 */
export type TextChange = [number, number, string];
/**
 * Of a comparison: how many tokens all texts so far begin with alike, and at which they part, null while they do not; null for a single text.
 */
export type Parting1 = {
  common: number;
  at: number | null;
  /**
   * The same of every two columns a and b, which count from 0.
   */
  pairs: {
    a: number;
    b: number;
    common: number;
    at: number | null;
  }[];
} | null;

/**
 * A run begins: all of its trace that is known beforehand.
 */
export interface StartMessage {
  kind: "start";
  run: string;
  seq: number;
  templates?: Templates;
  /**
   * Where the page shows it.
   */
  strategy: string;
  /**
   * Makes the run again; empty where it does not.
   */
  link: string;
  form: Form;
  header: Header;
}
/**
 * The sentences in a message: English sentence -> its template and values, for translation.
 */
export interface Templates {
  [k: string]: {
    template: string;
    values: {
      [k: string]: string;
    };
  };
}
/**
 * The form that asks for a run: what its controls show.
 */
export interface Form {
  strategy: string;
  /**
   * Null where a run continues ids or messages.
   */
  prompt: string | null;
  /**
   * A conversation in place of a prompt, null where there is none.
   */
  messages: ChatMessages | null;
  /**
   * What its chat template is told besides, null without messages.
   */
  template: {
    [k: string]: unknown;
  } | null;
  /**
   * What the model is given to see: example: and a name, or held: and the hash of what was sent.
   */
  image: string | null;
  /**
   * The same to hear.
   */
  audio: string | null;
  /**
   * What a speech model is told besides: language, task, return_timestamps; null for nothing.
   */
  speech: {
    [k: string]: unknown;
  } | null;
  model: string;
  assistant: string;
  /**
   * Digits: it may be too large for a number.
   */
  seed: string;
  /**
   * By parameter.
   */
  values: {
    [k: string]: unknown;
  };
}
/**
 * A trace without its steps and outputs.
 */
export interface Header {
  /**
   * What a saved trace holds, in this order.
   */
  fields: string[];
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
  pieces: Pieces;
  timing?: Timing;
  metrics?: Metrics;
  assistant?: ModelInfo | null;
  eos_token_ids?: number[];
  special_token_ids?: number[];
  notes?: string[];
  parent?: Parent | null;
  messages?: ChatMessages | null;
  template?: {
    [k: string]: unknown;
  } | null;
  prompt_turns?: PromptTurn[];
  literal_tokens?: number;
  method?: MethodInfo | null;
  /**
   * By output: what one pass over a custom method's text says of its tokens.
   */
  emitted?: EmittedToken[][];
  media?: MediaInfo[];
  /**
   * What a speech model was told: language, task, return_timestamps.
   */
  speech?: {
    [k: string]: unknown;
  } | null;
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
}
export interface HeldWeights {
  quantization: string | null;
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
/**
 * Texts of tokens by their ids.
 */
export interface Pieces {
  [k: string]: string;
}
export interface Timing {
  total_s: number;
  first_token_s: number | null;
  load_s: number;
  queue_s: number;
}
export interface Metrics {
  [k: string]: number | null;
}
export interface Parent {
  run_id: string;
  step: number;
  kept: number;
  token_ids: number[];
  text: string | null;
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
/**
 * Steps and texts since the message before.
 */
export interface DeltaMessage {
  kind: "delta";
  run: string;
  seq: number;
  templates?: Templates;
  steps: Step[];
  /**
   * By step: what its pictures show of it and of the run up to it, by picture.
   */
  shown: Shown[];
  pieces: Pieces;
  texts: TextChange[];
  parting?: Parting1;
}
export interface Step {
  index: number;
  keep: number;
  emit: number[];
  candidates: Candidate[];
  stages: Stage[];
  detail:
    DrawDetail | BeamDetail | DraftDetail | LayerDetail | ContrastiveDetail | WatermarkDetail | ForwardDetail | null;
  logsumexp: number;
  entropy: number;
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
  drafter: string;
  report: DraftReport | null;
}
export interface DraftToken {
  token_id: number;
  p: number;
  q: number | null;
  u: number | null;
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
/**
 * What the views show of a step and of the run up to it, by view: the values of their summary.py. A step has those of the run's strategy and of its own kind.
 */
export interface Shown {
  text?: TextSummary;
  candidates?: CandidateSummary;
  xray?: StageSummary;
  chart?: ChartSummary;
  draw?: DrawSummary;
  formula?: FormulaSummary;
  beam_tree?: BeamTreeSummary;
  contrastive?: ContrastiveSummary;
  layer_heatmap?: LayerSummary;
  watermark?: WatermarkSummary;
  draft_timeline?: DraftSummary;
  forward_timeline?: ForwardSummary;
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
  first_token_s: number;
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
/**
 * Probabilities of the recorded candidates; entropies in bits.
 */
export interface CandidateSummary {
  raw: number[];
  processed: number[];
  seen: number;
  more_raw: number;
  more_processed: number;
  rest_raw: number;
  rest_processed: number;
  entropy: number;
  entropy_used: number;
}
/**
 * Entropies in bits, and the number of tokens that each processor removed.
 */
export interface StageSummary {
  entropy_model: number;
  entropy: number[];
  removed: number[];
}
/**
 * In bits.
 */
export interface ChartSummary {
  surprise: number | null;
  entropy: number | null;
  entropy_used: number | null;
}
/**
 * Empty for a step without a draw.
 */
export interface DrawSummary {
  strip?: [number, number][];
  /**
   * @minItems 2
   * @maxItems 2
   */
  others?: [number | null, number];
  runners?: number[];
  ticks?: [number, string][];
  judged?: (number | null)[];
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
 * Entropies in bits.
 */
export interface LayerSummary {
  entropy: number[];
  normed_entropy: number[];
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
 * A run has come to its end, or was stopped: the rest of its trace.
 */
export interface FinishMessage {
  kind: "finish";
  run: string;
  seq: number;
  templates?: Templates;
  rest: Rest;
  parting?: Parting1;
}
export interface Rest {
  outputs: Output[];
  metrics: Metrics;
  timing: Timing;
  notes: string[];
  pieces: Pieces;
  /**
   * By output: what one pass over a custom method's text says of its tokens.
   */
  emitted?: EmittedToken[][];
  /**
   * The last step once more, with what was measured beside it after it was sent; there only where something was.
   */
  last?: {
    step: Step;
    shown: Shown;
  };
}
export interface Output {
  token_ids: number[];
  text: string;
  finish_reason: "eos" | "length" | "stop" | "cancelled" | "error";
  score: number | null;
}
/**
 * A run has failed, or was refused before it began.
 */
export interface FailMessage {
  kind: "fail";
  run: string;
  seq: number;
  templates?: Templates;
  strategy?: string;
  /**
   * One sentence for the reader.
   */
  error: string;
  /**
   * There only where somebody stopped it before it began.
   */
  stopped?: true;
  /**
   * There only where the same may be taken a little later.
   */
  again?: true;
  /**
   * There only where another run begins in its place, and its id.
   */
  anew?: string;
  parting?: Parting1;
}
/**
 * What goes on in a run at the moment; it has no number, as the next one says all that counts.
 */
export interface ProgressMessage {
  kind: "progress";
  run: string;
  templates?: Templates;
  /**
   * Where the page shows it.
   */
  strategy: string;
  phase: "starting" | "waiting" | "loading" | "decoding" | "checking";
  /**
   * A few words for the reader.
   */
  says: string;
}
/**
 * Everything sent of a run so far, for a page that missed something; empty for an unknown run.
 */
export interface StateMessage {
  kind: "state";
  run: string;
  messages: NumberedMessage[];
}
