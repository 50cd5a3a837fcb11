"""Measure time and other load on the processor, without the pauses in which other work computes.

A timing describes a method only if nothing else used the processor at the same time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakSet

_lock = threading.Lock()
_running_count = 0
_paused = threading.local()
"""``seconds``: how long the work of each thread was paused."""


def work_time() -> float:
    """Return the seconds of a clock of this thread that stands still while its work is paused."""
    return time.perf_counter() - getattr(_paused, "seconds", 0.0)


def skip_time(seconds: float) -> None:
    """Set this thread's clock back by a pause that has just ended."""
    _paused.seconds = getattr(_paused, "seconds", 0.0) + seconds


@dataclass(frozen=True)
class TimingNoise:
    """Other load on the processor during a timing."""

    others: int
    """Largest number of other runs in this process at one time."""
    share: float
    """Share of the wall time, in [0, 1], that the timed thread spent on the processor."""


class NoiseMonitor:
    """Measures load from its creation on; create it in the thread that is timed."""

    def __init__(self) -> None:
        self.began, self.used = work_time(), time.thread_time()
        with _lock:
            self.most = _running_count
            _monitors.add(self)

    def measure(self) -> TimingNoise:
        """Return the load between creation and now."""
        passed = work_time() - self.began
        used = time.thread_time() - self.used
        return TimingNoise(max(0, self.most - 1), cpu_share(used, passed))


# Weak references: a watch that nobody holds stops being updated.
_monitors: WeakSet[NoiseMonitor] = WeakSet()


def cpu_share(used: float, passed: float) -> float:
    """Return CPU seconds divided by wall seconds, clipped to [0, 1]; 1 if no time has passed."""
    return min(1.0, max(0.0, used / passed)) if passed > 0 else 1.0


@contextmanager
def track_work() -> Iterator[None]:
    """Count one running piece of work for the duration of the context."""
    count_work(1)
    try:
        yield
    finally:
        count_work(-1)


def count_work(more: int) -> None:
    """Add to the number of running pieces of work."""
    global _running_count  # noqa: PLW0603 - a counter of this process
    with _lock:
        _running_count += more
        for watch in _monitors:
            watch.most = max(watch.most, _running_count)
