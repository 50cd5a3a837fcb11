"""How fast something comes, and how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Callable

_SURE_S = 0.5
"""No rate is told before: the first bytes come in a burst."""


class Rate:
    """Bytes a second since the first telling.

    Args:
        clock: returns seconds; None is the process's own.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self.clock = clock or time.monotonic
        self.began: float | None = None
        self.first = 0

    def of(self, done: int) -> float:
        """Return bytes a second, 0 while that is not known.

        Args:
            done: bytes that are there by now.
        """
        if self.began is None:
            self.began, self.first = self.clock(), done
        passed = self.clock() - self.began
        return (done - self.first) / passed if passed >= _SURE_S and done > self.first else 0.0


def rest(done: int, total: int, per_s: float) -> str:
    """Return the rate and the time left as the end of a sentence, empty while they are not known."""
    if not per_s or done >= total:
        return ""
    return f", {per_s / 1e6:.1f} MB/s, {(total - done) / per_s:.0f} s left"
