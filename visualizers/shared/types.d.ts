// What the views speak of, known to every module by these names.
import type * as summaries from "./summaries.d.ts";
import type * as trace from "./trace.d.ts";

declare global {
  /** A token of a text as it stands there now. */
  interface Token {
    id: number;
    /** The step that wrote it. */
    step: number;
    /** The model's own probability of it there, null where nothing tells. */
    p: number | null;
    /** Its probability as it was used, after the processors, null where nothing tells. */
    used: number | null;
    /** How surprising it was there. */
    bits: number | null;
  }

  type Candidate = trace.Candidate;
  /** A node of a search; a trace with a log-probability of -inf here is refused. */
  type BeamNode = trace.BeamNode & { logprob: number };
  type DrawDetail = trace.DrawDetail;
  type BeamDetail = Omit<trace.BeamDetail, "pool"> & { pool: BeamNode[] };
  type DraftDetail = trace.DraftDetail;
  type DraftToken = trace.DraftToken;
  type DraftReport = trace.DraftReport;
  type FillDetail = trace.FillDetail;
  type FillReport = trace.FillReport;
  type LayerDetail = trace.LayerDetail;
  type LayerReading = trace.LayerReading;
  type ContrastiveDetail = trace.ContrastiveDetail;
  type ContrastiveOption = trace.ContrastiveOption;
  type WatermarkDetail = trace.WatermarkDetail;
  type ForwardDetail = trace.ForwardDetail;
  type ForwardPass = trace.ForwardPass;

  /** What an element of the page contains. */
  type Content = Node | string | number | null | undefined | Content[];

  /** A step; what its detail holds follows from its kind. */
  interface Step extends Omit<trace.Step, "detail"> {
    detail: any;
  }

  /** The summaries of a step by view. A view reads its own only, which is there where it is drawn. */
  type Shown = Required<summaries.Shown>;

  /** A whole run with what its pictures show. */
  interface Recorded {
    trace: trace.DecodingTrace;
    shown: Shown[];
    /** English sentence -> its template and values. */
    templates?: Record<string, { template: string; values: Record<string, string> }>;
    /** Of a lesson's run: its media with words for them, and where they are fetched. */
    given?: any[];
    /** Of a lesson's run: what was asked of its steps, and what was found. */
    looked?: { look: any; answer: any }[];
    /** The maps of its dials that were recorded, by dial. */
    maps?: Record<string, import("../dial_map/intervals.mjs").DialMap>;
  }

  type Status =
    | "running"
    | "finished"
    | "stopped"
    | "failed"
    | "paused"
    | "replayed"
    | "recorded"
    | "predicting";

  /** What goes on in a part of the page, from the press of a button on. */
  interface Activity {
    phase:
      | "asked"
      | "away"
      | "starting"
      | "waiting"
      | "loading"
      | "decoding"
      | "paused"
      | "checking"
      | "stopping"
      | "stopped";
    /** A few words for the reader. */
    says: string;
    /** Id of the run, empty until the server has said it. */
    run: string;
    /** The press that began it. */
    press?: object;
  }

  /** The record of a run as far as it is known, and what is looked at in it. */
  interface Run
    extends Omit<trace.DecodingTrace, "schema" | "steps" | "config" | "timing" | "metrics"> {
    /** Known at the end. */
    timing?: trace.Timing;
    metrics?: Record<string, number>;
    id: string;
    /** The number of the message that comes next. */
    next: number;
    status: Status;
    config: Record<string, any>;
    steps: Step[];
    /** By step. */
    shown: Shown[];
    /** By output. */
    tokens: Token[][];
    texts: string[];
    selected: number | null;
    /** Of a search: the node of the selected step that was chosen, null for that of the leading text. */
    node?: number | null;
    /** The token of the selected step that was chosen, from 0; null for the one that it decided. */
    offset?: number | null;
    /** Whether the newest step is selected whenever one comes. */
    follow: boolean;
    error: string;
    /** Whether what was refused may be taken a little later. */
    again?: boolean;
    /** Of a comparison's column: where the texts part, as far as its messages know. */
    parting?: {
      common: number;
      at: number | null;
      pairs: { a: number; b: number; common: number; at: number | null }[];
    } | null;
    link?: string;
    /** Names of the fields of its trace. */
    fields: (keyof trace.DecodingTrace & keyof Run)[];
    /** One sentence: what to look at; of a run of a preset. */
    shows?: string;
    /** Whether it stands in for a run of which some steps are hidden. */
    covered?: boolean;
    /** Names and values of the settings that are not the defaults, in words. */
    changed?: [string, string][];
    /** The form that asks for it, as the page's controls show it. */
    form?: any;
    /** Its name in the gallery. */
    entry?: string;
    /** Of a run of the gallery: the dials whose maps the gallery has. */
    dial_maps?: string[];
    /** The step that a recorded run opens at, from 1. */
    look_at?: number;
    /** The maps of its dials that are known, by dial. */
    maps?: Record<string, import("../dial_map/intervals.mjs").DialMap>;
    /** What its grammar made of the model's choice, where that was computed. */
    grammar_texts?: import("../grammar/texts.mjs").GrammarTexts;
    /** The map of two of its dials. */
    grid?: import("../dial_map/grid_picture.mjs").DialGrid;
    /** Of a recorded run: the whole of it. */
    source?: Recorded;
    /** Texts of tokens that the record lacks, from an answer of the server. */
    more_pieces?: Record<number, string>;
  }

  /** Where a run is to be continued. */
  interface Fork {
    step: number;
    token_id: number;
    node_id?: number;
  }

  /** What is asked about: a token or a node of a step, or a place in a round of drafting. */
  interface Asked {
    step?: number;
    token_id?: number;
    node_id?: number;
    at?: number;
  }

  /** A candidate of a step under settings that were not run. Probabilities are from 0 to 1. */
  interface PreviewRow {
    token_id: number;
    /** The model's own probability. */
    own: number;
    /** Its probability with the new settings; 0 if a filter removed it. */
    used: number;
    /** Name of the filter that removed it. */
    removed: string | null;
  }

  /** The selected step under settings that were not run. */
  interface Preview {
    /** Index of the step; -1 if only its text is known so far. */
    step: number;
    /** The most likely token with the new settings first; removed tokens last. */
    rows: PreviewRow[];
    /** The model's own probability of all other tokens. */
    rest_own: number;
    /** The probability of all other tokens with the new settings. */
    rest_used: number;
    /** The token that the new settings choose; null if it is not known. */
    chosen: number | null;
    /** Where the draw falls in the chosen token's slice, from 0 to 1; null if it is not known. */
    needle: number | null;
    /** What was changed, for a sentence, such as 0.42. */
    setting: string;
    /** The first word of the text that would change; `known` once the server has answered. */
    first: {
      step: number;
      token_id: number;
      known: boolean;
      /** The whole rest of the new text after this token, where it is known. */
      rest?: number[];
    } | null;
    /** Whether the step is not known under these settings: there are no rows then. */
    stale: boolean;
    /** Whether a stale step is being decided; otherwise only a run can show it. */
    pending?: boolean;
  }

  /** What a view may do on its stage. */
  interface Context {
    trigger: (name: string, data?: unknown) => void;
    strategy: string;
    /** The selected step under the settings of the form, null while they are those of the run. */
    preview: Preview | null;
    /** Ask again for what was refused, where that can be done. */
    again?: (() => void) | null;
    select: (index: number, node?: number, offset?: number | null) => void;
    /** Open the panel that a view stands in, where it stands in one. */
    open: (view: string) => void;
    /** Draw another run in place of the one that is shown, null for that one again. */
    cover: (cover: ((run: Run) => Run) | null) => void;
    /** Show the stage alone, as large as the screen. */
    present: () => void;
    fork: ((choice: Fork) => void) | null;
    /** Where there is a form: set a dial to a value. */
    turn?: ((dial: string, value: number) => void) | null;
    /** Where a server can be asked: the map of two dials of a run; `fetch` returns why there is none. */
    grids?: { fetch: (run: Run) => Promise<string>, stop: () => void } | null;
    /** Where a server can be asked: why a token was taken, or why not. */
    ask?: ((question: Asked) => void) | null;
  }

  interface View {
    /** Draw what has come since step `from`. */
    update(run: Run, from: number): void;
    select(run: Run, index: number): void;
    clear(): void;
    /** What goes on under the stage's key has changed; nothing any more. */
    active?(activity: Activity | undefined): void;
  }

  interface ViewSpec {
    title: string;
    /** False for none; a text where it has terms in brackets. */
    heading?: false | string;
    /** Where it is: in the column, behind a tab below it, or behind a tab of the last of these. */
    place?: "main" | "answers" | "drawer";
    /** What its tab says, where its title is too long. */
    tab?: string;
    /** Whether it is the picture that its strategy is known by. */
    picture?: boolean;
    /** Whether it is the picture where no other view is one, and behind More elsewhere. */
    fallback?: boolean;
    /** Whether it has the selected step only as it was run: it says so while other settings are tried. */
    recorded?: boolean;
    /** Whether it needs the whole run, and so waits while some of it is covered. */
    whole?: boolean;
    /** Whether it covers the run, and so stays while the others are made anew. */
    covers?: boolean;
    empty?: string;
    mount(root: HTMLElement, ctx: Context): View;
  }
}
