"""Draws a token from the candidates that a server listed, by our own filters and our own noise."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch

from engine.endpoints.answer import ReportedStep, ReportedToken
from engine.endpoints.dialects import SamplerValues
from engine.endpoints.steps import LARGEST_VOCABULARY
from engine.errors import DecodeError
from engine.live.kept_tokens import KeptTokens, filter_listed
from engine.loops.exponential_race import MAX_RACERS
from engine.trace.draws import DrawDetail, Racer
from engine.trace.records import Step
from engine.trace.served import ServedDetail


@dataclass(frozen=True, slots=True)
class OwnDraw:
    """A drawn token, and all that the filters made of the candidates."""

    token: ReportedToken
    detail: DrawDetail
    kept: KeptTokens
    ids: tuple[int, ...]
    """Ids of the candidates, most probable first."""

    @property
    def probability(self) -> float:
        """Probability of the token after the filters."""
        return self.detail.racers[0].probability

    def add_to(self, step: Step) -> Step:
        """Return the step with the draw and the probabilities after the filters."""
        assert isinstance(step.detail, ServedDetail)
        logs = [math.log(p) if p > 0 else -math.inf for p in self.kept.probabilities]
        logs += [-math.inf] * len(self.kept.removed_by)
        names = [None] * len(self.kept.probabilities) + list(self.kept.removed_by)
        found = dict(zip(self.ids, zip(logs, names, strict=True), strict=True))
        candidates = tuple(
            dataclasses.replace(
                c, processed_logprob=found[c.token_id][0], removed_by=found[c.token_id][1]
            )
            for c in step.candidates
        )
        detail = dataclasses.replace(
            step.detail, draw=self.detail, draw_error=min(1.0, self.kept.error)
        )
        return dataclasses.replace(step, candidates=candidates, detail=detail)


class OwnSampler:
    """Draws as a local run does: with its seed, the same distribution gives the same token.

    Args:
        values: the sampler; its temperature is above 0.
        vocab_size: number of tokens of the vocabulary; None if the server does not say it. The noise
            is then another one than that of a local run.
    """

    def __init__(self, values: SamplerValues, vocab_size: int | None) -> None:
        self.values, self.size = values, vocab_size or LARGEST_VOCABULARY
        self.generator = torch.Generator().manual_seed(values.seed)

    def draw(self, step: ReportedStep) -> OwnDraw:
        """Return the token drawn from the candidates of a step.

        Raises:
            DecodeError: a candidate's id is outside the vocabulary, or listed twice.
        """
        listed = sorted(step.top, key=lambda token: -_logprob(token))
        ids = tuple(-1 if token.id is None else token.id for token in listed)
        if not ids or min(ids) < 0 or max(ids) >= self.size or len({*ids}) < len(ids):
            raise DecodeError(
                "The server lists token ids that cannot be: outside its vocabulary, or twice."
            )
        kept = filter_listed([_logprob(token) for token in listed], self.values, self.size)
        noise = torch.empty(1, self.size).exponential_(1, generator=self.generator)[0]
        racers = sorted(
            (
                Racer(ids[at], p, float(noise[ids[at]]), float(noise[ids[at]]) / p)
                for at, p in enumerate(kept.probabilities)
                if p > 0
            ),
            key=lambda racer: racer.arrival,
        )
        token = listed[ids.index(racers[0].token_id)]
        return OwnDraw(token, DrawDetail(tuple(racers[:MAX_RACERS])), kept, ids)


def _logprob(token: ReportedToken) -> float:
    return -math.inf if token.logprob is None else token.logprob
