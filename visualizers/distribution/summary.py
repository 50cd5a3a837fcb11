"""What each step saw: candidates, processor stages, surprise over steps."""

from __future__ import annotations

import math
from itertools import pairwise

from engine.trace.details import BeamDetail, DraftDetail
from engine.trace.records import Candidate, Step, Trace, own_token
from visualizers.base import Shown, bits, probability

_SEEN, _LEAST, _MOST = 0.99, 5, 10
"""Rows that are in sight: as many as hold this share of either probability, but so many."""


class Candidates:
    """The candidates of a step: those of the last token it wrote, of one seen from outside the first.

    Shows ``raw`` and ``processed``, the probability of each in the model and as it was used, after
    the processors; ``seen``, how many of them are in sight, and what the others hold together
    (``more_raw``, ``more_processed``); what the candidates leave of either (``rest_raw``, ``rest_processed``); and in
    bits ``entropy`` of the model's own distribution and ``entropy_used`` of the one that was used.
    """

    def __init__(self, run: Trace) -> None:
        del run

    def add(self, step: Step) -> Shown:
        """Take a step."""
        raw = [probability(c.raw_logprob) for c in step.candidates]
        processed = [probability(c.processed_logprob) for c in step.candidates]
        token = own_token(step)
        written = [i for i, c in enumerate(step.candidates) if c.token_id == token]
        seen = max([_in_sight(raw, processed), *(i + 1 for i in written)])
        return {
            "raw": raw,
            "processed": processed,
            "seen": seen,
            "more_raw": math.fsum(raw[seen:]),
            "more_processed": math.fsum(processed[seen:]),
            "rest_raw": max(0.0, 1 - math.fsum(raw)),
            "rest_processed": max(0.0, 1 - math.fsum(processed)),
            "entropy": bits(step.entropy),
            "entropy_used": _used(step),
        }


def _in_sight(raw: list[float], processed: list[float]) -> int:
    """Return how many candidates hold nearly all of the probability."""
    held = (0.0, 0.0)
    for count, (own, used) in enumerate(zip(raw, processed, strict=True)):
        if count >= _MOST or (count >= _LEAST and min(held) >= _SEEN):
            return count
        held = (held[0] + own, held[1] + used)
    return len(raw)


class Stages:
    """What the processors of a step left.

    Shows ``entropy_model``, the entropy of the model's own distribution, and per processor ``entropy``, that
    after it, both in bits, and ``removed``, how many tokens it removed.
    """

    def __init__(self, run: Trace) -> None:
        self.vocab_size = run.model.vocab_size

    def add(self, step: Step) -> Shown:
        """Take a step."""
        left = [self.vocab_size, *(stage.kept for stage in step.stages)]
        return {
            "entropy_model": bits(step.entropy),
            "entropy": [bits(stage.entropy) for stage in step.stages],
            "removed": [max(0, before - after) for before, after in pairwise(left)],
        }


class Chart:
    """How surprising and how uncertain every step was.

    Shows ``surprise`` of the last token a step wrote, ``entropy`` of the model's own distribution and
    ``entropy_used`` of the one that was used, all in bits. Surprise is that of the model's own
    distribution, whatever the processors made of it; None for a token that the model held to be
    impossible. A step of which no distribution was seen has none of them.
    """

    def __init__(self, run: Trace) -> None:
        del run

    def add(self, step: Step) -> Shown:
        """Take a step."""
        token = own_token(step)
        own = next((c for c in step.candidates if c.token_id == token), None)
        seen = bool(step.candidates)
        return {
            "surprise": _surprise(own),
            "entropy": bits(step.entropy) if seen else None,
            "entropy_used": _used(step) if seen else None,
        }


def _used(step: Step) -> float:
    """Return the entropy of the distribution after all processors, in bits."""
    return bits(step.stages[-1].entropy if step.stages else step.entropy)


def _surprise(own: Candidate | None) -> float | None:
    return None if own is None or own.raw_logprob == -math.inf else bits(-own.raw_logprob)


def is_one_by_one(step: Step) -> bool:
    """Return whether a step's candidates are those of the one token it wrote for good."""
    return not isinstance(step.detail, (BeamDetail, DraftDetail))
