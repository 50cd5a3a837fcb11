"""Estimates how long work will take from how long the same kind took before."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from statistics import median

_MAX_RECENT = 32


class DurationEstimator:
    """Estimates durations from recent work of the same kind."""

    def __init__(self) -> None:
        self._durations: deque[tuple[Hashable, float, float]] = deque(maxlen=_MAX_RECENT)

    def add(self, kind: Hashable, size: float, seconds: float) -> None:
        self._durations.append((kind, size, seconds))

    def estimate(self, kind: Hashable, size: float) -> float | None:
        """Return the expected seconds from recent work, of this kind if any; None without any."""
        own = [seconds / amount for known, amount, seconds in self._durations if known == kind]
        if own:
            return median(own) * size
        return median(seconds for *_, seconds in self._durations) if self._durations else None
