"""What each step saw: candidates, processor stages, surprise over steps."""

from __future__ import annotations

import math

from engine.trace.details import BeamDetail, DraftDetail, DrawDetail, WatermarkDetail
from engine.trace.records import Candidate, Step, Trace
from visualizers.base import Shown, bits, probability


class Candidates:
    """The candidates of a step: those of the last token it wrote.

    Shows ``raw`` and ``processed``, the probability of each before and after the processors, what
    the candidates leave of either (``rest_raw``, ``rest_processed``), and the ``entropy`` of the
    model's own distribution in bits.
    """

    def __init__(self, run: Trace) -> None:
        del run

    def add(self, step: Step) -> Shown:
        """Take a step."""
        raw = [probability(c.raw_logprob) for c in step.candidates]
        processed = [probability(c.processed_logprob) for c in step.candidates]
        return {
            "raw": raw,
            "processed": processed,
            "rest_raw": max(0.0, 1 - math.fsum(raw)),
            "rest_processed": max(0.0, 1 - math.fsum(processed)),
            "entropy": bits(step.entropy),
        }


class Stages:
    """What the processors of a step left: ``entropy`` after each, in bits."""

    def __init__(self, run: Trace) -> None:
        del run

    def add(self, step: Step) -> Shown:
        """Take a step."""
        return {"entropy": [bits(stage.entropy) for stage in step.stages]}


class Chart:
    """``surprise`` of the last token a step wrote and ``entropy`` of the model, both in bits.

    Surprise is that of the model's own distribution, whatever the processors made of it; None for
    a token that the model held to be impossible.
    """

    def __init__(self, run: Trace) -> None:
        del run

    def add(self, step: Step) -> Shown:
        """Take a step."""
        own = next((c for c in step.candidates if c.token_id in step.emit[-1:]), None)
        return {"surprise": _surprise(own), "entropy": bits(step.entropy)}


def _surprise(own: Candidate | None) -> float | None:
    return None if own is None or own.raw_logprob == -math.inf else bits(-own.raw_logprob)


def is_drawn(step: Step) -> bool:
    """Return whether chance picked the step's token."""
    detail = step.detail.draw if isinstance(step.detail, WatermarkDetail) else step.detail
    return isinstance(detail, DrawDetail)


def is_one_by_one(step: Step) -> bool:
    """Return whether a step's candidates are those of the one token it wrote for good."""
    return not isinstance(step.detail, (BeamDetail, DraftDetail))
