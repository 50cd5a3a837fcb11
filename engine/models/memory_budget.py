"""The models' memory budget: temporary loans from it, evictions to make room, and freeing heap memory."""

from __future__ import annotations

import ctypes
import itertools
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable

_LOANS: dict[Callable[[], None], float] = {}
"""Callback that frees a loan -> its bytes."""
_loans_lock = threading.Lock()


def lend_memory(size: float, call_back: Callable[[], None]) -> None:
    """Register memory that something other than a model uses until a model needs it.

    Args:
        size: bytes.
        call_back: frees the memory and then calls ``end_loan``. It may be called from any thread,
            also when the memory is free already.
    """
    with _loans_lock:
        _LOANS[call_back] = size


def end_loan(call_back: Callable[[], None]) -> None:
    """Remove a loan whose memory is free; calling it twice has no effect."""
    with _loans_lock:
        _LOANS.pop(call_back, None)


def recall_loans(room: float) -> None:
    """Free all loans if together they exceed the free part of the budget.

    Args:
        room: bytes of the budget that no model uses.
    """
    with _loans_lock:
        borrowers = list(_LOANS) if sum(_LOANS.values()) > room else []
    # Outside the lock: each callback takes it in ``end_loan``.
    for call_back in borrowers:
        call_back()


_MAX_EVICTIONS = 100
"""Number of evictions remembered for visitors who wait for a model."""
_EVICTIONS: deque[tuple[int, str, str, str]] = deque(maxlen=_MAX_EVICTIONS)
_EVICTION_NUMBERS = itertools.count(1)
_evictions_lock = threading.Lock()
_LOG = logging.getLogger("engine")


def record_eviction(model: str, place: str, room_for: str) -> None:
    """Record that a model was evicted.

    Args:
        model: the evicted model's name.
        place: ``memory`` or ``disk``.
        room_for: name of the model that needed the space.
    """
    _LOG.info("a model left %s to make room", place)
    with _evictions_lock:
        _EVICTIONS.append((next(_EVICTION_NUMBERS), model, place, room_for))


def eviction_mark() -> int:
    """Return a position in the list of evictions, for ``evictions_since``."""
    with _evictions_lock:
        # From the same counter, so that every later eviction has a larger number.
        return next(_EVICTION_NUMBERS)


def evictions_since(number: int, room_for: str, place: str) -> tuple[str, ...]:
    """Return the models evicted for another one since a mark, oldest first.

    Args:
        number: the value of ``eviction_mark``.
        room_for: name of the model they were evicted for.
        place: ``memory`` or ``disk``.
    """
    with _evictions_lock:
        found = [name for n, name, *why in _EVICTIONS if n > number and why == [place, room_for]]
    return tuple(dict.fromkeys(found))


def trim_heap() -> None:
    """Make glibc return free heap memory to the system (``malloc_trim``).

    Layers of 1 to 3 MB stay in the heap after they are freed, and the next model is laid next to
    them. ``gc.collect`` does not help, since no reference cycle holds a model.
    """
    if sys.platform != "linux":
        return
    # Other C libraries, such as musl, lack it.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
