"""One text as it grows: a step costs the same however long the text is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import cast

from engine.reading.metrics import perplexity_of
from visualizers.base import Shown

LEAST = 1e-30
"""A probability below this surprises as much as this: nought has no bits."""
Seen = tuple[float | None, float | None]
"""A token's probability in the model and as it was used, each None where nothing tells."""
_WORDS = 3
"""Tokens of the n-grams whose repetition is counted."""


class Running:
    """The tokens of a text, and its figures."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self._logprobs: list[float | None] = []
        self._unknown = 0
        self._grams: list[tuple[int, ...]] = []
        self._counts: Counter[tuple[int, ...]] = Counter()

    def put(self, keep: int, ids: Sequence[int], seen: Sequence[Seen]) -> None:
        """Put tokens after the first ``keep``.

        Args:
            keep: how many tokens stay.
            ids: those that follow.
            seen: of each of these.
        """
        self.ids[keep:] = ids
        fresh = [None if p is None else math.log(max(p, LEAST)) for p, _ in seen]
        self._unknown += fresh.count(None) - self._logprobs[keep:].count(None)
        self._logprobs[keep:] = fresh
        first = max(0, keep - _WORDS + 1)
        for gram in self._grams[first:]:
            self._counts[gram] -= 1
            if not self._counts[gram]:
                del self._counts[gram]
        last = range(first, len(self.ids) - _WORDS + 1)
        self._grams[first:] = [tuple(self.ids[i : i + _WORDS]) for i in last]
        self._counts.update(self._grams[first:])

    def figures(self) -> Shown:
        """Return ``tokens``, ``perplexity`` (None where a token's probability is unknown) and ``rep_3``."""
        grams = len(self._grams)
        return {
            "tokens": len(self.ids),
            "perplexity": self._perplexity(),
            "rep_3": 1.0 - len(self._counts) / grams if grams else 0.0,
        }

    def _perplexity(self) -> float | None:
        if self._unknown or not self._logprobs:
            return None
        return perplexity_of(cast("list[float]", self._logprobs))


class Starts:
    """Numbers the beginnings of texts: two have one number when they have the same tokens."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], int] = {}

    def of(self, before: int, token_id: int) -> int:
        """Return the number of a beginning with one token more; that of an empty text is 0."""
        return self._known.setdefault((before, token_id), len(self._known) + 1)
