"""Who may run: permits the engine owns, released by the worker that took them.

The web queue frees its slot as soon as a user presses Stop, while the old step still computes;
these permits are what really bounds the work.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.errors import BusyError, Cancelled
from engine.settings import SETTINGS

_POLL_S = 0.05
_PERMITS = threading.Semaphore(SETTINGS.max_concurrent_runs)
_waiting = 0
_waiting_lock = threading.Lock()


@contextmanager
def running(cancelled: threading.Event, *models: Any) -> Iterator[None]:
    """Hold a permit and the lock of every model while decoding.

    Args:
        cancelled: gives up waiting when set.
        models: LoadedModels whose forward passes the run uses; None and repeats are ignored.

    Raises:
        BusyError: too many runs are waiting already.
        Cancelled: ``cancelled`` was set while waiting.
    """
    unique = {id(model): model for model in models if model is not None}
    # A fixed order of acquisition, so that two runs cannot wait for each other.
    locks = [_PERMITS, *(m.lock for m in sorted(unique.values(), key=lambda m: m.order))]
    held: list[Any] = []
    try:
        with _in_line():
            for lock in locks:
                while not lock.acquire(timeout=_POLL_S):
                    if cancelled.is_set():
                        raise Cancelled
                held.append(lock)
        yield
    finally:
        for lock in reversed(held):
            lock.release()


@contextmanager
def _in_line() -> Iterator[None]:
    global _waiting  # noqa: PLW0603 - a counter of this process
    with _waiting_lock:
        if _waiting >= SETTINGS.max_waiting_runs:
            raise BusyError(f"Busy: {_waiting} runs are waiting already; try again in a moment.")
        _waiting += 1
    try:
        yield
    finally:
        with _waiting_lock:
            _waiting -= 1
