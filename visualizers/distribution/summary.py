"""Summaries of each step's distribution: candidates, processor stages, surprise over steps."""

from __future__ import annotations

import math
from itertools import pairwise

from engine.trace.details import BeamDetail, DraftDetail, LayerDetail, find_draw
from engine.trace.filling import FillDetail
from engine.trace.records import Candidate, Step, Trace, chosen_token_id
from engine.trace.served import ServedDetail
from visualizers.base import (
    StepSummary,
    Visual,
    has_next_token,
    is_decided_by_program,
    is_seen_whole,
    nats_to_bits,
    to_probability,
)
from visualizers.distribution.race import DrawSummary
from visualizers.distribution.repeats import DRY, repeat_penalties

_MAX_REPEATS = 3


class CandidateSummary:
    """Probabilities of a step's recorded candidates.

    Values per step:

    - ``raw``, ``processed``: probability of each candidate before and after the processors.
    - ``rest_raw``, ``rest_processed``: probability of all tokens that were not recorded.
    - ``drawn``: True if the token was drawn from these candidates.
    - ``needle``: place of the draw within the drawn token's share, in [0, 1]: 1 - exp(-arrival). It
      is a uniform random number, as the earliest arrival of the race is exponential with rate 1.
      None if the arrivals are not recorded.
    """

    def __init__(self, run: Trace) -> None:
        self.sample = run.strategy == "sampling" or bool(run.config.get("do_sample"))

    def add(self, step: Step) -> StepSummary:
        """Add a step and return its values."""
        raw = [to_probability(c.raw_logprob) for c in step.candidates]
        processed = [to_probability(c.processed_logprob) for c in step.candidates]
        detail = step.detail
        draw = detail.draw if isinstance(detail, ServedDetail) else find_draw(detail)
        unraced = self.sample and isinstance(step.detail, (LayerDetail, type(None)))
        return {
            "raw": raw,
            "processed": processed,
            "rest_raw": max(0.0, 1 - math.fsum(raw)),
            "rest_processed": max(0.0, 1 - math.fsum(processed)),
            "drawn": draw is not None or unraced,
            "needle": None if draw is None else round(-math.expm1(-draw.racers[0].arrival), 4),
        }


class StageSummary:
    """Effects of a step's logits processors.

    Values per step: ``entropy_model``, entropy of the model's distribution; per processor
    ``entropy`` after it, both in bits, and ``removed``, the number of tokens it removed;
    ``repeats``, of DRY: (token id, length, penalty in nats) of the recorded tokens that would
    continue a repeat, the longest first.
    """

    def __init__(self, run: Trace) -> None:
        self.vocab_size, self.config = run.model.vocab_size, run.config
        self.texts: dict[int, list[int]] = {}
        self.prompt = [] if run.model.is_encoder_decoder else list(run.prompt_ids)

    def _find_repeats(self, step: Step) -> list[list[float]]:
        """Return ``repeats`` of a step, and add its tokens to its text."""
        text = self.texts.setdefault(step.sequence, [])
        before = [*self.prompt, *text[: step.keep]]
        text[step.keep :] = step.emit
        acts = any(stage.name == DRY.name for stage in step.stages)
        if not acts or not has_single_token_candidates(step):
            return []
        found = repeat_penalties(self.config, before)
        shown = [c.token_id for c in step.candidates if c.token_id in found]
        longest = sorted(shown, key=lambda token: -found[token][0])[:_MAX_REPEATS]
        return [[token, found[token][0], round(found[token][1], 4)] for token in longest]

    def add(self, step: Step) -> StepSummary:
        """Add a step and return its values."""
        left = [self.vocab_size, *(stage.kept for stage in step.stages)]
        return {
            "entropy_model": nats_to_bits(step.entropy or 0.0),
            "entropy": [nats_to_bits(stage.entropy) for stage in step.stages],
            "removed": [max(0, before - after) for before, after in pairwise(left)],
            "repeats": self._find_repeats(step),
        }


class ChartSummary:
    """Surprise and entropy of every step, in bits.

    Values per step: ``surprise`` of the chosen token and ``entropy``, both under the model before
    processors; ``entropy_used``, the entropy after processors. ``surprise`` is None for a token of
    probability 0. All are None for a step without recorded candidates. A step that a server reported
    in part has the bounds ``entropy_low`` and ``entropy_high`` in their place.
    """

    def __init__(self, run: Trace) -> None:
        del run

    def add(self, step: Step) -> StepSummary:
        """Add a step and return its values."""
        token = chosen_token_id(step)
        own = next((c for c in step.candidates if c.token_id == token), None)
        if isinstance(step.detail, ServedDetail):
            return {
                "surprise": None if step.detail.merged else _surprise_bits(own),
                "entropy": None,
                "entropy_used": None,
                "entropy_low": nats_to_bits(step.detail.entropy_low),
                "entropy_high": nats_to_bits(step.detail.entropy_high),
            }
        seen = bool(step.candidates)
        return {
            "surprise": _surprise_bits(own),
            "entropy": nats_to_bits(step.entropy or 0.0) if seen else None,
            "entropy_used": _processed_entropy(step) if seen else None,
        }


def _processed_entropy(step: Step) -> float:
    """Return the entropy after all processors, in bits."""
    return nats_to_bits(step.stages[-1].entropy if step.stages else step.entropy or 0.0)


def _surprise_bits(own: Candidate | None) -> float | None:
    return None if own is None or own.raw_logprob == -math.inf else nats_to_bits(-own.raw_logprob)


def has_single_token_candidates(step: Step) -> bool:
    """Return True if the step's candidates describe the single token that it emitted for good."""
    return not isinstance(step.detail, (BeamDetail, DraftDetail, FillDetail))


VISUALS = (
    Visual("candidates", CandidateSummary, has_next_token, order=70),
    Visual("xray", StageSummary, is_decided_by_program, order=71),
    Visual("draw", DrawSummary, is_seen_whole, order=90),
    Visual("chart", ChartSummary, has_single_token_candidates, order=100),
)
