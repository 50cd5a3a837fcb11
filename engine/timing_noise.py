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
            self.most = len(_running)
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


class Work:
    """A piece of work, counted from its start to its end, except while it is paused."""

    def __init__(self) -> None:
        self._started = self._paused = False

    @contextmanager
    def track(self) -> Iterator[None]:
        """Start it, and end it with the context."""
        self._change(started=True)
        try:
            yield
        finally:
            self._change(started=False)

    def pause(self) -> None:
        """Stop counting it. It may start or end before it is resumed."""
        self._change(paused=True)

    def resume(self) -> None:
        """Count it again, if it has started and not ended."""
        self._change(paused=False)

    def _change(self, *, started: bool | None = None, paused: bool | None = None) -> None:
        with _lock:
            self._started = self._started if started is None else started
            self._paused = self._paused if paused is None else paused
            if self._started and not self._paused:
                _running.add(self)
            else:
                _running.discard(self)
            for watch in _monitors:
                watch.most = max(watch.most, len(_running))


_running: set[Work] = set()
