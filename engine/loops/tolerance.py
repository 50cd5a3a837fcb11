"""Whether logits that differ by at most a margin could change a decision.

Logits of passes batched with other runs differ in their last digits from those of a pass alone.
Two cases can change a decision: near ties between the best tokens, and tokens near a filter's edge.
Such a step is recomputed unbatched; see ``engine/loops/rows.py``.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from engine.loops.recorder import Stages, display_name
from engine.models.model_types import Processors
from engine.processors import FILTERS
from engine.processors.scores import IMPOSSIBLE_SCORE, highest_removed, lowest_kept
from engine.watermark import processors as watermark_processors


def has_known_tolerance(processors: Processors) -> bool:
    """Return whether the tolerance of every processor is known."""
    return all(_is_known_processor(processor) for processor in processors)


def _is_known_processor(processor: object) -> bool:
    if isinstance(processor, watermark_processors.GreenListProcessor):
        # selfhash tests only the top tokens, an edge that is not checked here.
        return processor.seeding_scheme == "lefthash"
    own_filter = FILTERS.get(display_name(processor))
    return own_filter is not None and (
        own_filter.edge is not None or own_filter.stretch is not None
    )


def may_change_decision(
    stages: Stages,
    logits: torch.Tensor,
    processors: Processors,
    noise: torch.Tensor | None,
    margin: float,
) -> bool:
    """Return whether logits that differ by ``margin`` might give another token in any row.

    The arguments are those of ``find_uncertain_rows``.
    """
    return bool(find_uncertain_rows(stages, logits, processors, noise, margin).any())


def find_uncertain_rows(
    stages: Stages,
    logits: torch.Tensor,
    processors: Processors,
    noise: torch.Tensor | None,
    margin: float,
) -> torch.Tensor:
    """Return (rows,) whether logits that differ by ``margin`` might give another token.

    Args:
        stages: output of every processor, in order.
        logits: (rows, vocab) raw logits.
        processors: the run's processors, all known to ``has_known_tolerance``; one may have a
            (rows, 1) column of values.
        noise: (rows, vocab) noise of the exponential race; None for greedy decoding.
        margin: largest difference of a logit in nats, above 0.
    """
    # The race in logits: the argmax of p / e is the argmax of score - log e.
    late = 0.0 if noise is None else noise.log()
    final = (stages[-1][1] if stages else logits) - late
    best = final.topk(2, dim=-1)
    chosen = best.indices[:, :1]
    # Two logits may move towards each other, so a gap shrinks by twice the margin.
    wide = torch.full((len(logits),), 2 * margin, device=logits.device)
    before, doubt = logits, torch.zeros(len(logits), dtype=torch.bool, device=logits.device)
    # A token on the other side of an edge could also get the green-list bias.
    green_list = watermark_processors.GreenListProcessor
    boost = max((p.bias for p in processors if isinstance(p, green_list)), default=0.0)
    for processor, (name, after) in zip(processors, stages, strict=True):
        own_filter = FILTERS.get(name)
        if own_filter is not None and own_filter.edge is not None:
            there, kept = before > IMPOSSIBLE_SCORE, after > IMPOSSIBLE_SCORE
            scores = torch.where(there, before, -math.inf)
            near = own_filter.edge(processor, scores, kept) < wide
            doubt |= near & _affects_choice(scores, kept, chosen, late, wide + boost)
        elif own_filter is not None and own_filter.stretch is not None:
            wide = wide * own_filter.stretch(processor)
        before = after
    # Negated, so that NaN counts as undecided.
    return doubt | ~(best.values[:, 0] - best.values[:, 1] >= wide)


def _affects_choice(
    scores: torch.Tensor, kept: torch.Tensor, chosen: torch.Tensor, late: Any, wide: torch.Tensor
) -> torch.Tensor:
    """Return (rows,) whether a token near the edge is the chosen one or would have been chosen."""
    own = scores.gather(-1, chosen)
    is_last = own[:, 0] <= lowest_kept(scores, kept) + wide
    race = scores - late
    out = (
        (scores >= (highest_removed(scores, kept) - wide)[:, None])
        & ~kept
        & (scores > IMPOSSIBLE_SCORE)
    )
    return is_last | (out & (race >= race.gather(-1, chosen) - wide[:, None])).any(-1)
