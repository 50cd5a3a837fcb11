"""Strategy-specific details of a step: a closed union of dataclasses.

The classes are plain data. ``kind`` names a class in JSON, see ``DETAIL_TYPES``. Add
new kinds here only.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.trace.draws import DrawDetail
from engine.trace.filling import FillDetail
from engine.trace.served import ServedDetail
from engine.trace.value_types import LogProb, Probability, Seconds, TokenId

FATES = ("kept", "pruned", "finished", "finished_worse", "blocked")
"""Outcomes of a candidate in a beam search."""
STATUSES = ("accepted", "rejected", "unverified")
"""Outcomes of a drafted token."""


@dataclass(frozen=True, slots=True)
class BeamNode:
    """One member of a beam search's candidate pool."""

    node_id: int
    parent_id: int
    """Node this one extends; -1 is the prompt."""
    token_id: TokenId
    logprob: LogProb
    """After all logits processors, including the diversity penalty."""
    sum_logprobs: float
    score: float
    """sum_logprobs / generated_length ** length_penalty."""
    rank: int
    """Rank in the pool of its group from 0: by sum, in beam sampling by order of the draw."""
    margin: float
    """sum_logprobs minus that of the last kept candidate; negative if it missed the cut."""
    group: int
    diversity_penalty: float
    """Log-probability subtracted because earlier groups chose this token."""
    fate: str
    """One of FATES."""
    penalised_by: tuple[int, ...] = ()
    """Earlier groups that chose this token at this step."""
    reason: str = ""
    """Why a finished candidate was not added to the heap, or the effect of a constraint."""
    arrival: float | None = None
    """Beam sampling: e / probability in the exponential race; the smallest are drawn."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A finished hypothesis on the heap."""

    node_id: int
    sum_logprobs: float
    length: int
    """Generated tokens, including end-of-sequence, without the prompt."""
    score: float
    group: int = 0


@dataclass(frozen=True, slots=True)
class GreedyPath:
    """The greedy search result for the same prompt and the same logits processors."""

    token_ids: tuple[TokenId, ...]
    sum_logprobs: float
    score: float
    """sum_logprobs / length ** length_penalty."""
    left_at: int | None
    """First position at which the winner has another token; None if it has none."""


@dataclass(frozen=True, slots=True)
class BeamDetail:
    """A beam search step: its whole pool, the heap and the stopping test."""

    pool: tuple[BeamNode, ...]
    heap: tuple[Hypothesis, ...]
    best_running: float | None
    """Best score that an open beam could still reach: the left side of the stopping test."""
    worst_finished: float | None
    """Worst score on the full heap: the right side of the test; None while it is not full."""
    stopping: bool
    winner_node_id: int | None = None
    """On the last step: the node whose path is outputs[0]."""
    stop_reason: str = ""
    """On the last step: why the search ended."""
    greedy: GreedyPath | None = None
    """On the last step: the greedy path, for comparison."""


@dataclass(frozen=True, slots=True)
class DraftToken:
    """One drafted token and its verification by the target model."""

    token_id: TokenId
    p: Probability
    """Probability under the target model, after its logits processors."""
    q: Probability | None
    """Probability under the draft model; None for drafters without one (prompt lookup)."""
    u: Probability | None
    """Uniform random number compared with the acceptance ratio; None in greedy verification."""
    status: str
    """One of STATUSES."""


@dataclass(frozen=True, slots=True)
class DraftNode:
    """One guess of a draft tree."""

    token_id: TokenId
    parent: int | None
    """Index of the node before it; None after the last token of the text."""
    q: Probability
    """Probability under the draft model, given the tokens before it."""
    p: Probability | None
    """Likewise under the target model; None where the target's choices did not lead."""
    status: str
    """One of STATUSES; unverified where the target's choices did not lead."""


@dataclass(frozen=True, slots=True)
class Parting:
    """The first position at which a drafted text differs from the target's greedy path."""

    position: int
    """Index of the differing new token, from 0."""
    emitted_id: TokenId
    expected_id: TokenId
    emitted_logit: float
    expected_logit: float
    gap: float
    """expected_logit minus emitted_logit."""
    near_tie: bool
    """True if the gap is within the rounding error of the model's dtype."""


@dataclass(frozen=True, slots=True)
class DistributionCheck:
    """Observed counts of sampled tokens against the target's exact distribution."""

    length: int
    """Number of leading tokens that are compared: 1 the first, 2 the first two together."""
    runs: int
    chi_square: float
    degrees: int
    p_value: Probability
    """Probability of a chi-square at least this large if the distributions are equal."""
    bins: tuple[tuple[tuple[TokenId, ...], int, float], ...]
    """(token ids, observed count, expected count); the bin without ids pools the rest."""


@dataclass(frozen=True, slots=True)
class LineDraft:
    """A run of the same prompt with drafts of one guess after the other, to compare a draft tree with."""

    length: int
    """Guesses in a draft."""
    tokens: int
    passes: int
    """Forward passes of the target model."""
    draft_passes: int


@dataclass(frozen=True, slots=True)
class DraftReport:
    """Measurements made after a drafted run; stored in its last step."""

    checked: int
    """New tokens compared with the target's greedy choice; 0 if sampling, lossy or quantised."""
    parting: Parting | None
    check_s: Seconds
    plain_tokens: int
    """Tokens of the plain run; 0 without one."""
    plain_s: Seconds
    plain_identical: bool | None
    """Greedy: True if the plain run gave the same tokens."""
    distributions: tuple[DistributionCheck, ...] = ()
    others: int | None = None
    """Largest number of other runs in this process while this run or the plain run was timed; None
    if it was not observed."""
    processor_share: Probability | None = None
    """Share of the time in which the decoding thread computed, the lower of both timings. In the
    rest it waited for a processor or a device."""
    lines: tuple[LineDraft, ...] = ()
    """Draft trees with a plain run: drafts in a line, one as deep as the tree and one of its size."""


@dataclass(frozen=True, slots=True)
class DraftDetail:
    """One round of drafting and verification."""

    draft_length: int
    requested_length: int
    length_reason: str
    """Reason for the draft length: schedule, confidence, budget, end of text, no match."""
    tokens: tuple[DraftToken, ...]
    final_token_id: TokenId
    final_source: str
    """resampled, bonus, target (its own choice), or ended (the text ended within the draft)."""
    residual: tuple[tuple[TokenId, Probability], ...]
    """Most probable tokens of the final token's distribution: (token_id, probability)."""
    draft_forwards: int
    draft_s: Seconds
    verify_s: Seconds
    match: tuple[int, int, int] | None = None
    """Prompt lookup: (n-gram length, position of the match in prompt + output, copied tokens)."""
    draft_own: tuple[str, ...] = ()
    """Universal: pieces of the draft in the draft model's tokenizer."""
    reencoded: tuple[TokenId, ...] = ()
    """Universal: the draft in target token ids."""
    lost: str = ""
    """Universal: drafted text that was lost in re-encoding."""
    exit_layer: int | None = None
    threshold: Probability | None = None
    """Adaptive confidence: the draft ended after a token less probable than this; None if constant."""
    drafter: str = ""
    """assistant, prompt_lookup, early_exit, mtp or universal."""
    tree: tuple[DraftNode, ...] = ()
    """Draft trees: all guesses, parents first. ``tokens`` are then those of the branch that was followed,
    and the most probable guess after it if that was rejected."""
    report: DraftReport | None = None
    """On the last round: checks of the output and the measured cost."""


@dataclass(frozen=True, slots=True)
class LayerReading:
    """The prediction of one layer (logit lens)."""

    layer: int
    divergence: float | None
    """Jensen-Shannon divergence from the final layer, as in DoLa; None for the final layer."""
    entropy: float
    """Nats. This and the next three: the output head on the layer, without the final norm."""
    rank: int
    """Rank of the emitted token at this layer, from 0."""
    logprob: LogProb
    top: tuple[tuple[TokenId, Probability], ...]
    """(token_id, probability), most probable first."""
    normed_entropy: float
    """The same four values with the final norm applied first (the usual logit lens)."""
    normed_rank: int
    normed_logprob: LogProb
    normed_top: tuple[tuple[TokenId, Probability], ...]
    normed_divergence: float | None = None


@dataclass(frozen=True, slots=True)
class LayerDetail:
    """A DoLa step: the prediction of every layer, and the contrasted layer."""

    layers: tuple[LayerReading, ...]
    """From the embedding output (layer 0) to the model's final output."""
    candidate_layers: tuple[int, ...]
    premature_layer: int
    kept: int
    """Number of tokens that passed the relative-top mask."""
    final_top: tuple[tuple[TokenId, Probability], ...]
    """Most probable tokens before the contrast: (token_id, probability)."""
    contrast_top: tuple[tuple[TokenId, float], ...]
    """Best tokens after the contrast: (token_id, final minus premature log-probability)."""
    draw: DrawDetail | None = None
    """With sampling: how the token was drawn; None in older files."""


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
    """Position in prompt + output with the most similar hidden state. For encoder-decoder models,
    position in the output alone, where -1 is the start token."""
    score: float


@dataclass(frozen=True, slots=True)
class ContrastiveDetail:
    """A contrastive search step: the scores of all candidates and the index of the chosen one."""

    options: tuple[ContrastiveOption, ...]
    chosen: int


@dataclass(frozen=True, slots=True)
class WatermarkDetail:
    """Watermark data of one emitted token."""

    scheme: str
    """lefthash, selfhash or synthid."""
    is_green: bool | None
    """None for SynthID, and for tokens without enough context to choose a list."""
    green_fraction: Probability | None
    """Green share of the vocabulary at this step; for selfhash, of the tested tokens."""
    bias: float
    """Added to the logit of this token; 0 for a red token and for SynthID."""
    context_ids: tuple[TokenId, ...]
    """Ids that seed the green list or the g-values; for selfhash, together with the token."""
    scored: bool
    """True if a detector that sees only the new tokens counts this one."""
    reason: str = ""
    """Why the token does not count; empty if it does."""
    fresh: bool = True
    """True if it counts and no earlier counted token has its colour or g-values from the same
    seed."""
    g_values: tuple[int, ...] = ()
    green_candidates: tuple[TokenId, ...] = ()
    """Green tokens among the recorded candidates."""
    draw: DrawDetail | None = None
    marked: bool = True
    """True if the watermark was applied at this step."""
    expected: Probability = 0.0
    """Expected share of hits in the z-score: the configured ratio."""
    chance: Probability = 0.0
    """Exact share of hits in unmarked text: of the list, or of ones in SynthID's table."""


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """One forward pass, observed by a hook; tokens are those of the first row of the batch."""

    rows: int
    """Rows of the batch."""
    read: int
    """Tokens read in each row."""
    cached: int
    """Tokens of each row already in the cache."""
    dropped: int
    """Tokens of the previous pass's text that are missing from this one (rolled back)."""
    length: int
    """Length of the text after this pass in tokens, including the prompt."""
    elapsed_s: Seconds = 0.0
    """Seconds from the start of the run to the end of the pass."""
    aside: bool = False
    """True if it read another text, only part of the run's text, or no ids. ``length`` and the text
    are then those of the previous pass."""


@dataclass(frozen=True, slots=True)
class ForwardDetail:
    """The forward passes with which a custom method produced a step, observed from outside."""

    passes: tuple[ForwardPass, ...]
    """In order; the step's token was chosen after the last."""
    declared: int = 0
    """Tokens that the method passed to its streamer during the step."""


Detail = (
    DrawDetail
    | BeamDetail
    | DraftDetail
    | LayerDetail
    | ContrastiveDetail
    | WatermarkDetail
    | ForwardDetail
    | ServedDetail
    | FillDetail
)


def find_draw(detail: Detail | None) -> DrawDetail | None:
    """Return how a step's token was drawn; None if it was not drawn or has no recorded arrivals."""
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
    "served": ServedDetail,
    "fill": FillDetail,
}
