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
_working = 0


@dataclass(frozen=True)
class Company:
    """Other load on the processor during a timing."""

    others: int
    """Largest number of other runs in this process at one time."""
    share: float
    """Share of the wall time, in [0, 1], that the timed thread spent on the processor."""


class Watch:
    """Measures load from its creation on; create it in the thread that is timed."""

    def __init__(self) -> None:
        self.began, self.used = time.perf_counter(), time.thread_time()
        with _lock:
            self.most = _working
            _watches.add(self)

    def seen(self) -> Company:
        """Return the load between creation and now."""
        passed = time.perf_counter() - self.began
        used = time.thread_time() - self.used
        return Company(max(0, self.most - 1), share_of(used, passed))


# Weak references: a watch that nobody holds stops being updated.
_watches: WeakSet[Watch] = WeakSet()


def share_of(used: float, passed: float) -> float:
    """Return CPU seconds divided by wall seconds, clipped to [0, 1]; 1 if no time has passed."""
    return min(1.0, max(0.0, used / passed)) if passed > 0 else 1.0


@contextmanager
def working() -> Iterator[None]:
    """Count one running piece of work for the duration of the context."""
    global _working  # noqa: PLW0603 - a counter of this process
    with _lock:
        _working += 1
        for watch in _watches:
            watch.most = max(watch.most, _working)
    try:
        yield
    finally:
        with _lock:
            _working -= 1
