"""Summary of a step that a server reported in part: bounds on what it did not report."""

from __future__ import annotations

import math

from engine.trace.records import Step, Trace
from engine.trace.served import SERVED_STRATEGY, ServedDetail
from visualizers.base import StepSummary, Visual, has_detail, nats_to_bits


class ServedSummary:
    """Bounds on the unseen part of a step.

    Values per step: ``seen``, the probability of all reported tokens; ``entropy_low`` and
    ``entropy_high`` in bits; ``count``, the number of reported tokens.
    """

    def __init__(self, run: Trace) -> None:
        del run

    def add(self, step: Step) -> StepSummary | None:
        """Add a step and return its values."""
        detail = step.detail
        if not isinstance(detail, ServedDetail):
            return None
        return {
            "seen": round(1 - math.fsum((detail.unseen_low, detail.unseen_high)) / 2, 6),
            "entropy_low": nats_to_bits(detail.entropy_low),
            "entropy_high": nats_to_bits(detail.entropy_high),
            "count": len(step.candidates),
        }


VISUALS = (
    Visual(
        "served",
        ServedSummary,
        has_detail(ServedDetail),
        order=72,
        strategies=(SERVED_STRATEGY,),
    ),
)
