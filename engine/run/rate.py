"""Transfer rate and remaining time of a download."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.messages import Message

_MIN_ELAPSED_S = 0.5
"""Shortest time to measure a rate over: the first bytes come in a burst."""


class TransferRate:
    """Average bytes a second since the first call.

    Args:
        clock: returns seconds; None for time.monotonic.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self.clock = clock or time.monotonic
        self.began: float | None = None
        self.first = 0

    def per_second(self, done: int) -> float:
        """Return bytes a second, 0 while unknown.

        Args:
            done: bytes transferred so far.
        """
        if self.began is None:
            self.began, self.first = self.clock(), done
        passed = self.clock() - self.began
        return (
            (done - self.first) / passed if passed >= _MIN_ELAPSED_S and done > self.first else 0.0
        )


def format_time_left(done: int, total: int, per_s: float) -> str:
    """Return the rate and the remaining time as the end of a sentence, empty while unknown."""
    if not per_s or done >= total:
        return ""
    return Message(
        ", {rate} MB/s, {s} s left",
        rate=f"{per_s / 1e6:.1f}",
        s=f"{(total - done) / per_s:.0f}",
    )
