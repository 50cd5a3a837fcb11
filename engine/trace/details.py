"""What is special to one kind of decision: a closed union, one small class each.

Every class is plain data. ``kind`` is its name in JSON. New kinds are added here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.trace.values import LogProb, Probability, Seconds, TokenId

FATES = ("kept", "pruned", "finished", "finished_worse", "blocked")
"""What became of a beam search's candidate."""
STATUSES = ("accepted", "rejected", "unverified")
"""What became of a drafted token."""


@dataclass(frozen=True, slots=True)
class Racer:
    """A token in the exponential race that draws a sample."""

    token_id: TokenId
    probability: Probability
    noise: float
    """Exponential(1) noise e drawn for this token."""
    arrival: float
    """e / probability: the smallest arrival wins, exactly torch.multinomial's argmax of p / e."""


@dataclass(frozen=True, slots=True)
class DrawDetail:
    """How a token was drawn: the winner and the runners-up of the exponential race."""

    racers: tuple[Racer, ...]
    """Earliest arrivals first; the first is the token that was emitted."""


@dataclass(frozen=True, slots=True)
class BeamNode:
    """One member of a beam search's candidate pool."""

    node_id: int
    parent_id: int
    """Node this one extends; -1 is the prompt."""
    token_id: TokenId
    logprob: LogProb
    """After every processor, the diversity penalty included."""
    sum_logprobs: float
    score: float
    """sum_logprobs / generated_length ** length_penalty."""
    rank: int
    """Place in the pool of its group, 0 is first: by sum, in beam sampling by the draw."""
    margin: float
    """sum_logprobs minus that of the last kept candidate (negative: missed the cut by this)."""
    group: int
    diversity_penalty: float
    """What earlier groups' choice of this token cost it."""
    fate: str
    """One of FATES."""
    penalised_by: tuple[int, ...] = ()
    """Earlier groups that chose this token at this step."""
    reason: str = ""
    """Why a finished candidate did not join the finished hypotheses, or what a constraint did."""
    arrival: float | None = None
    """Beam sampling: e / probability of its exponential race; the earliest are drawn."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A finished hypothesis on the heap."""

    node_id: int
    sum_logprobs: float
    length: int
    """Generated tokens, end-of-sequence included, prompt not counted."""
    score: float
    group: int = 0


@dataclass(frozen=True, slots=True)
class GreedyPath:
    """What greedy search makes of the same prompt with the same processors."""

    token_ids: tuple[TokenId, ...]
    sum_logprobs: float
    score: float
    """sum_logprobs / length ** length_penalty."""
    left_at: int | None
    """First position where the search's winner takes another token, None when it never does."""


@dataclass(frozen=True, slots=True)
class BeamDetail:
    """A beam search step: its whole pool, the heap and the stopping test."""

    pool: tuple[BeamNode, ...]
    heap: tuple[Hypothesis, ...]
    best_running: float | None
    """Best score an open beam could still reach (the left side of the stopping test)."""
    worst_finished: float | None
    """Worst score on the full heap (the right side); None while the heap is not full."""
    stopping: bool
    winner_node_id: int | None = None
    """Set on the last step: the node whose path is outputs[0]."""
    stop_reason: str = ""
    """On the last step: why the search ended."""
    greedy: GreedyPath | None = None
    """On the last step: the greedy path beside the search."""


@dataclass(frozen=True, slots=True)
class DraftToken:
    """One drafted token and how the target judged it."""

    token_id: TokenId
    p: Probability
    """Probability under the target after its processors."""
    q: Probability | None
    """Probability under the draft; None for drafters that give none (prompt lookup)."""
    u: Probability | None
    """Uniform number compared with the acceptance ratio; None in greedy verification."""
    status: str
    """One of STATUSES."""


@dataclass(frozen=True, slots=True)
class Parting:
    """The first place where an assisted text leaves the target's own greedy path."""

    position: int
    """New token that differs, 0 is the first."""
    emitted_id: TokenId
    expected_id: TokenId
    emitted_logit: float
    expected_logit: float
    gap: float
    """expected_logit minus emitted_logit."""
    near_tie: bool
    """The gap is within the rounding of the model's number format."""


@dataclass(frozen=True, slots=True)
class DistributionCheck:
    """Observed counts of sampled tokens against the target's exact distribution."""

    length: int
    """Tokens looked at: 1 is the first token, 2 the first two together."""
    runs: int
    chi_square: float
    degrees: int
    p_value: Probability
    """Probability of a chi-square at least this large when the distributions are the same."""
    bins: tuple[tuple[tuple[TokenId, ...], int, float], ...]
    """(token ids, observed count, expected count); the bin without ids holds all the rest."""


@dataclass(frozen=True, slots=True)
class DraftReport:
    """What was measured after an assisted run had ended; part of its last step."""

    checked: int
    """New tokens compared with the target's own greedy choice; 0 when sampling, lossy or quantised."""
    parting: Parting | None
    check_s: Seconds
    plain_tokens: int
    """Tokens the plain run made; 0 when none was made."""
    plain_s: Seconds
    plain_identical: bool | None
    """Greedy: whether the plain run made the same tokens."""
    distributions: tuple[DistributionCheck, ...] = ()
    others: int | None = None
    """Most other runs that this process computed at one time while this run or the plain one was
    timed; None when nobody looked."""
    processor_share: Probability | None = None
    """Share of the time of both timings, the lesser of the two, in which the decoding thread
    computed; for the rest it waited for the processor or for a device."""


@dataclass(frozen=True, slots=True)
class DraftDetail:
    """One round of drafting and verification."""

    draft_length: int
    requested_length: int
    length_reason: str
    """Why the draft had this length: schedule, confidence, budget, end of text, no match."""
    tokens: tuple[DraftToken, ...]
    final_token_id: TokenId
    final_source: str
    """resampled, bonus, target (its own choice), or ended (the text ended inside the draft)."""
    residual: tuple[tuple[TokenId, Probability], ...]
    """Top of the distribution the final token came from: (token_id, probability)."""
    draft_forwards: int
    draft_s: Seconds
    verify_s: Seconds
    match: tuple[int, int, int] | None = None
    """Prompt lookup: (n-gram length, position of the match, tokens copied) in prompt + output."""
    draft_own: tuple[str, ...] = ()
    """Universal: the draft tokenizer's own pieces."""
    reencoded: tuple[TokenId, ...] = ()
    """Universal: what the draft became in target ids."""
    lost: str = ""
    """Universal: drafted text that did not survive re-encoding."""
    exit_layer: int | None = None
    drafter: str = ""
    """assistant, prompt_lookup, early_exit or universal."""
    report: DraftReport | None = None
    """On the last round only: is the output the target's own, and what did it cost."""


@dataclass(frozen=True, slots=True)
class LayerReading:
    """What one layer would have said."""

    layer: int
    divergence: float | None
    """Jensen-Shannon divergence from the final layer as DoLa measures it; None for the final one."""
    entropy: float
    """Nats; this and the next three describe the output head applied to the layer as it is."""
    rank: int
    """Rank of the emitted token at this layer, 0 is best."""
    logprob: LogProb
    top: tuple[tuple[TokenId, Probability], ...]
    """(token_id, probability), most probable first."""
    normed_entropy: float
    """The same four with the model's final norm applied first (the usual logit lens)."""
    normed_rank: int
    normed_logprob: LogProb
    normed_top: tuple[tuple[TokenId, Probability], ...]
    normed_divergence: float | None = None


@dataclass(frozen=True, slots=True)
class LayerDetail:
    """A DoLa step: every layer's reading and the layer that was contrasted."""

    layers: tuple[LayerReading, ...]
    """Embedding output (layer 0) first, the model's own output last."""
    candidate_layers: tuple[int, ...]
    premature_layer: int
    kept: int
    """Tokens that passed the relative-top mask."""
    final_top: tuple[tuple[TokenId, Probability], ...]
    """Top tokens before the contrast: (token_id, probability)."""
    contrast_top: tuple[tuple[TokenId, float], ...]
    """Top tokens after the contrast: (token_id, final minus premature log-probability)."""
    draw: DrawDetail | None = None
    """With sampling: how the token was drawn; None in records made before this was kept."""


@dataclass(frozen=True, slots=True)
class ContrastiveOption:
    """One of the k candidates of contrastive search."""

    token_id: TokenId
    probability: Probability
    confidence: float
    """(1 - alpha) * probability."""
    max_cosine: float
    degeneration_penalty: float
    """alpha * max_cosine."""
    position: int
    """Position in prompt + output whose hidden state is most similar; for encoder-decoder models
    in the output alone, where -1 is the start token."""
    score: float


@dataclass(frozen=True, slots=True)
class ContrastiveDetail:
    """A contrastive search step: every candidate's score, the chosen one's index."""

    options: tuple[ContrastiveOption, ...]
    chosen: int


@dataclass(frozen=True, slots=True)
class WatermarkDetail:
    """Watermark facts of one emitted token."""

    scheme: str
    """lefthash, selfhash or synthid."""
    is_green: bool | None
    """None for SynthID, and where there was no context to choose a list."""
    green_fraction: Probability | None
    """Share of the vocabulary that was green at this step; for selfhash, of the tokens tested."""
    bias: float
    """What was added to the logit of this token; 0 for a red one and for SynthID."""
    context_ids: tuple[TokenId, ...]
    """Ids that chose the green list, respectively the g-values; for selfhash, joined by the token."""
    scored: bool
    """Whether a detector that sees the new tokens alone counts this one."""
    reason: str = ""
    """Why the token does not count, empty when it does."""
    fresh: bool = True
    """It counts, and no counted token before it has its colour or g-values from the same draw."""
    g_values: tuple[int, ...] = ()
    green_candidates: tuple[TokenId, ...] = ()
    """Recorded candidates that were green."""
    draw: DrawDetail | None = None
    marked: bool = True
    """Whether the mark acted at this step at all."""
    expected: Probability = 0.0
    """Mean share of hits that z is measured from: the ratio as configured."""
    chance: Probability = 0.0
    """Exact share of hits in unmarked text: that of the list, or of ones in SynthID's table."""


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """One forward pass of the model as a hook saw it, of the first row of its batch."""

    rows: int
    """Rows of the batch that were read at once."""
    read: int
    """Tokens that were read of each row."""
    cached: int
    """Tokens of each row that a cache held before."""
    dropped: int
    """Tokens of the text as it was at the pass before that are in it no more."""
    length: int
    """Tokens of the text after this pass, the prompt's included."""
    elapsed_s: Seconds = 0.0
    """Seconds since the run started, when the pass had ended."""
    aside: bool = False
    """Whether it read another text than the run's own, a part of it, or no ids: then ``length`` and the
    text are those of the pass before."""


@dataclass(frozen=True, slots=True)
class ForwardDetail:
    """What a custom method did with the model to write a step, seen from outside."""

    passes: tuple[ForwardPass, ...]
    """In order; the step's token was decided after the last."""
    declared: int = 0
    """Tokens that the method handed to its streamer meanwhile."""


Detail = (
    DrawDetail
    | BeamDetail
    | DraftDetail
    | LayerDetail
    | ContrastiveDetail
    | WatermarkDetail
    | ForwardDetail
)


def draw_of(detail: Detail | None) -> DrawDetail | None:
    """Return how a step's token was drawn, None where it was not or where no arrivals are recorded."""
    draw = detail.draw if isinstance(detail, (WatermarkDetail, LayerDetail)) else detail
    return draw if isinstance(draw, DrawDetail) and draw.racers else None


DETAIL_TYPES: dict[str, type] = {
    "draw": DrawDetail,
    "beam": BeamDetail,
    "draft": DraftDetail,
    "layer": LayerDetail,
    "contrastive": ContrastiveDetail,
    "watermark": WatermarkDetail,
    "forward": ForwardDetail,
}
