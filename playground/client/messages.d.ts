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
export type Shown = import("../../visualizers/shared/summaries.js").Shown;
/**
 * Which output's text, how much of it stays, and what follows.
 *
 * @minItems 3
 */
export type TextChange = [number, number, string];
/**
 * Of a comparison: how many tokens all texts so far begin with alike, and at which they part, null while they do not; null for a single text.
 */
export type Parting = {
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
  model: import("../../visualizers/shared/trace.js").ModelInfo;
  versions: {
    [k: string]: string;
  };
  seed: number;
  prompt: string | null;
  prompt_ids: number[];
  pieces: Pieces;
  timing?: import("../../visualizers/shared/trace.js").Timing;
  metrics?: Metrics;
  assistant?: import("../../visualizers/shared/trace.js").ModelInfo | null;
  eos_token_ids?: number[];
  special_token_ids?: number[];
  notes?: string[];
  parent?: import("../../visualizers/shared/trace.js").Parent | null;
  messages?: ChatMessages | null;
  template?: {
    [k: string]: unknown;
  } | null;
  prompt_turns?: import("../../visualizers/shared/trace.js").PromptTurn[];
  literal_tokens?: number;
  method?: import("../../visualizers/shared/trace.js").MethodInfo | null;
  /**
   * By output: what one pass over a custom method's text says of its tokens.
   */
  emitted?: import("../../visualizers/shared/trace.js").EmittedToken[][];
  /**
   * By output: what the grammar did at every token.
   */
  grammar?: import("../../visualizers/shared/trace.js").GrammarText[];
  /**
   * By output: its thinking sections; null without any.
   */
  thinking?: import("../../visualizers/shared/trace.js").Thinking | null;
  media?: import("../../visualizers/shared/trace.js").MediaInfo[];
  /**
   * The server that decoded the run elsewhere.
   */
  served?: import("../../visualizers/shared/trace.js").ServedInfo | null;
  /**
   * What a speech model was told: language, task, return_timestamps.
   */
  speech?: {
    [k: string]: unknown;
  } | null;
}
/**
 * Texts of tokens by their ids.
 */
export interface Pieces {
  [k: string]: string;
}
export interface Metrics {
  [k: string]: number | null;
}
/**
 * Steps and texts since the message before.
 */
export interface DeltaMessage {
  kind: "delta";
  run: string;
  seq: number;
  templates?: Templates;
  steps: import("../../visualizers/shared/trace.js").Step[];
  /**
   * By step: what its pictures show of it and of the run up to it, by picture.
   */
  shown: Shown[];
  pieces: Pieces;
  texts: TextChange[];
  parting?: Parting;
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
  parting?: Parting;
}
export interface Rest {
  outputs: import("../../visualizers/shared/trace.js").Output[];
  metrics: Metrics;
  timing: import("../../visualizers/shared/trace.js").Timing;
  notes: string[];
  pieces: Pieces;
  /**
   * By output: what one pass over a custom method's text says of its tokens.
   */
  emitted?: import("../../visualizers/shared/trace.js").EmittedToken[][];
  /**
   * By output: what the grammar did at every token.
   */
  grammar?: import("../../visualizers/shared/trace.js").GrammarText[];
  /**
   * By output: its thinking sections; null without any.
   */
  thinking?: import("../../visualizers/shared/trace.js").Thinking | null;
  served?: import("../../visualizers/shared/trace.js").ServedInfo;
  /**
   * This and the next only of a server's run, whose whole answer tells them.
   */
  eos_token_ids?: number[];
  special_token_ids?: number[];
  /**
   * The last step once more, with what was measured beside it after it was sent; there only where something was.
   */
  last?: {
    step: import("../../visualizers/shared/trace.js").Step;
    shown: Shown;
  };
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
  parting?: Parting;
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
  phase: "starting" | "waiting" | "loading" | "decoding" | "paused" | "checking";
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
