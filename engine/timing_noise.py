"""Measure other load on the processor during a timing.

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
        self.began, self.used = time.perf_counter(), time.thread_time()
        with _lock:
            self.most = _running_count
            _monitors.add(self)

    def measure(self) -> TimingNoise:
        """Return the load between creation and now."""
        passed = time.perf_counter() - self.began
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
    global _running_count  # noqa: PLW0603 - a counter of this process
    with _lock:
        _running_count += 1
        for watch in _monitors:
            watch.most = max(watch.most, _running_count)
    try:
        yield
    finally:
        with _lock:
            _running_count -= 1
