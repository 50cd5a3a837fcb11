"""Incremental figures of a growing text; a step costs the same at any length."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import cast

from engine.statistics.metrics import perplexity_from_logprobs
from visualizers.base import StepSummary

MIN_PROBABILITY = 1e-30
"""Lower bound of probabilities in surprise and perplexity, as log(0) is undefined."""
TokenProbabilities = tuple[float | None, float | None]
"""A token's probability before and after the processors, each None if unknown."""
_NGRAM_TOKENS = 3
"""Length of the n-grams whose repetition is counted."""


class TextFigures:
    """The tokens of a text and its figures."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self._logprobs: list[float | None] = []
        self._unknown = 0
        self._grams: list[tuple[int, ...]] = []
        self._counts: Counter[tuple[int, ...]] = Counter()

    def put(self, keep: int, ids: Sequence[int], seen: Sequence[TokenProbabilities]) -> None:
        """Replace the tokens after the first ``keep``.

        Args:
            keep: number of tokens that stay.
            ids: the new tokens.
            seen: probabilities of each new token.
        """
        self.ids[keep:] = ids
        fresh = [None if p is None else math.log(max(p, MIN_PROBABILITY)) for p, _ in seen]
        self._unknown += fresh.count(None) - self._logprobs[keep:].count(None)
        self._logprobs[keep:] = fresh
        # N-grams that reach into the replaced tokens are removed and counted again.
        first = max(0, keep - _NGRAM_TOKENS + 1)
        for gram in self._grams[first:]:
            self._counts[gram] -= 1
            if not self._counts[gram]:
                del self._counts[gram]
        last = range(first, len(self.ids) - _NGRAM_TOKENS + 1)
        self._grams[first:] = [tuple(self.ids[i : i + _NGRAM_TOKENS]) for i in last]
        self._counts.update(self._grams[first:])

    def figures(self) -> StepSummary:
        """Return ``tokens``, ``perplexity`` (None if a probability is unknown) and ``rep_3``."""
        grams = len(self._grams)
        return {
            "tokens": len(self.ids),
            "perplexity": self._perplexity(),
            "rep_3": 1.0 - len(self._counts) / grams if grams else 0.0,
        }

    def _perplexity(self) -> float | None:
        if self._unknown or not self._logprobs:
            return None
        return perplexity_from_logprobs(cast("list[float]", self._logprobs))


class PrefixNumbers:
    """Numbers text prefixes: equal prefixes have the same number."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], int] = {}

    def number_of(self, before: int, token_id: int) -> int:
        """Return the number of the prefix ``before`` plus one token; 0 is the empty prefix."""
        return self._known.setdefault((before, token_id), len(self._known) + 1)
