"""Whether logits that differ by at most a margin could change a decision.

Logits of passes batched with other runs differ in their last digits from those of a pass alone.
Two cases can change a decision: near ties between the best tokens, and tokens near a filter's edge.
Such a step is recomputed unbatched; see ``engine/loops/rows.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import transformers as t

from engine.loops.recorder import IMPOSSIBLE_SCORE, Stages
from engine.watermark.processors import GreenListProcessor

LipschitzBound = Callable[[Any], float]
"""processor -> largest factor by which it enlarges a difference of two scores."""


def _unit_bound(processor: Any) -> float:
    del processor
    return 1.0


LIPSCHITZ_BOUNDS: Mapping[type, LipschitzBound] = {
    t.TemperatureLogitsWarper: lambda p: max(1.0, 1 / p.temperature),
    t.RepetitionPenaltyLogitsProcessor: lambda p: max(p.penalty, 1 / p.penalty),
    t.SequenceBiasLogitsProcessor: _unit_bound,
    t.NoBadWordsLogitsProcessor: _unit_bound,
    t.NoRepeatNGramLogitsProcessor: _unit_bound,
    t.MinLengthLogitsProcessor: _unit_bound,
    t.MinNewTokensLengthLogitsProcessor: _unit_bound,
    t.PrefixConstrainedLogitsProcessor: _unit_bound,
    t.ForcedBOSTokenLogitsProcessor: _unit_bound,
    t.ForcedEOSTokenLogitsProcessor: _unit_bound,
    t.SuppressTokensLogitsProcessor: _unit_bound,
    t.SuppressTokensAtBeginLogitsProcessor: _unit_bound,
    t.LogitNormalization: lambda p: 2.0,
    GreenListProcessor: _unit_bound,
}
"""Processors that change scores continuously, or by the text alone."""

EdgeDistance = Callable[[Any, torch.Tensor, torch.Tensor], torch.Tensor]
"""(processor, (rows, vocab) scores, kept mask) -> (rows,) distance to the edge."""


def _gap_at_edge(scores: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Return (rows,) gap between the lowest kept and the highest removed score."""
    return _lowest_kept(scores, kept) - _highest_removed(scores, kept)


def _lowest_kept(scores: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    return scores.masked_fill(~kept, math.inf).amin(-1)


def _highest_removed(scores: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    return scores.masked_fill(kept, -math.inf).amax(-1)


def _distance_to_edge(scores: torch.Tensor, kept: torch.Tensor, edge: torch.Tensor) -> torch.Tensor:
    """Return (rows,) distance between ``edge`` and the nearest score on either side."""
    return torch.minimum(
        _lowest_kept(scores, kept) - edge, edge - _highest_removed(scores, kept)
    ).abs()


def _top_p_edge_distance(processor: Any, scores: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Return (rows,) distance to the edge of top-p, the smaller of mass and score."""
    # top-p compares the mass both with and without the last kept token.
    probs = scores.softmax(-1)
    mass = torch.where(kept, probs, 0.0).sum(-1)
    last = probs.masked_fill(~kept, math.inf).amin(-1)
    edge = torch.minimum((mass - processor.top_p).abs(), (mass - last - processor.top_p).abs())
    return torch.minimum(edge, _gap_at_edge(scores, kept))


EDGE_DISTANCES: Mapping[type, EdgeDistance] = {
    t.TopKLogitsWarper: lambda p, scores, kept: _gap_at_edge(scores, kept),
    t.TopPLogitsWarper: _top_p_edge_distance,
    t.MinPLogitsWarper: lambda p, scores, kept: _distance_to_edge(
        scores, kept, scores.amax(-1) + math.log(p.min_p)
    ),
    t.EpsilonLogitsWarper: lambda p, scores, kept: _distance_to_edge(
        scores, kept, scores.logsumexp(-1) + math.log(p.epsilon)
    ),
}
"""Filters that keep the best tokens down to an edge."""


def has_known_tolerance(processors: Sequence[Any]) -> bool:
    """Return whether the tolerance of every processor is known here."""
    return all(_is_known_processor(processor) for processor in processors)


def _is_known_processor(processor: Any) -> bool:
    if isinstance(processor, GreenListProcessor):
        # selfhash tests only the top tokens, an edge that is not checked here.
        return processor.seeding_scheme == "lefthash"
    return type(processor) in LIPSCHITZ_BOUNDS or type(processor) in EDGE_DISTANCES


def may_change_decision(
    stages: Stages,
    logits: torch.Tensor,
    processors: Sequence[Any],
    noise: torch.Tensor | None,
    margin: float,
) -> bool:
    """Return whether logits that differ by ``margin`` might give another token in any row.

    Args:
        stages: output of every processor, in order.
        logits: (rows, vocab) raw logits.
        processors: the run's processors, all known to ``has_known_tolerance``.
        noise: (rows, vocab) noise of the exponential race; None for greedy decoding.
        margin: largest difference of a logit in nats, above 0.
    """
    late = 0.0 if noise is None else noise.log()
    final = (stages[-1][1] if stages else logits) - late
    best = final.topk(2, dim=-1)
    chosen = best.indices[:, :1]
    # Two logits may move towards each other, so a gap shrinks by twice the margin.
    wide = 2 * margin
    before, doubt = logits, torch.zeros(len(logits), dtype=torch.bool, device=logits.device)
    # A token on the other side of an edge could also get the green-list bias.
    boost = max((p.bias for p in processors if isinstance(p, GreenListProcessor)), default=0.0)
    for processor, (_, after) in zip(processors, stages, strict=True):
        edge = EDGE_DISTANCES.get(type(processor))
        if edge is None:
            wide *= LIPSCHITZ_BOUNDS[type(processor)](processor)
        else:
            there, kept = before > IMPOSSIBLE_SCORE, after > IMPOSSIBLE_SCORE
            scores = torch.where(there, before, -math.inf)
            near = edge(processor, scores, kept) < wide
            doubt |= near & _affects_choice(scores, kept, chosen, late, wide + boost)
        before = after
    # Negated, so that NaN counts as undecided.
    return bool((doubt | ~(best.values[:, 0] - best.values[:, 1] >= wide)).any())


def _affects_choice(
    scores: torch.Tensor, kept: torch.Tensor, chosen: torch.Tensor, late: Any, wide: float
) -> torch.Tensor:
    """Return (rows,) whether a token near the edge is the chosen one or would have been chosen."""
    own = scores.gather(-1, chosen)
    is_last = own[:, 0] <= _lowest_kept(scores, kept) + wide
    race = scores - late
    out = (
        (scores >= _highest_removed(scores, kept)[:, None] - wide)
        & ~kept
        & (scores > IMPOSSIBLE_SCORE)
    )
    return is_last | (out & (race >= race.gather(-1, chosen) - wide)).any(-1)
