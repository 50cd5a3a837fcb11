"""What else this process and this machine were doing while something was timed.

A timing says something about a method only where nothing else took the processor meanwhile.
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
    """What was seen while something was timed."""

    others: int
    """Most other pieces of work that went on in this process at one time."""
    share: float
    """Share of the time, in [0, 1], in which the watching thread computed; it waited for the rest."""


class Watch:
    """Watches from when it is made, in the thread that is timed."""

    def __init__(self) -> None:
        self.began, self.used = time.perf_counter(), time.thread_time()
        with _lock:
            self.most = _working
            _watches.add(self)

    def seen(self) -> Company:
        """Return what there was until now."""
        passed = time.perf_counter() - self.began
        used = time.thread_time() - self.used
        return Company(max(0, self.most - 1), share_of(used, passed))


_watches: WeakSet[Watch] = WeakSet()


def share_of(used: float, passed: float) -> float:
    """Return the share of the seconds that passed in which a thread computed, in [0, 1]."""
    return min(1.0, max(0.0, used / passed)) if passed > 0 else 1.0


@contextmanager
def working() -> Iterator[None]:
    """Count one more piece of work while it goes on."""
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
