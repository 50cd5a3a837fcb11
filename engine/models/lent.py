"""The models' memory budget: temporary loans from it, evictions to make room, and freeing heap memory."""

from __future__ import annotations

import threading
from collections.abc import Callable

_LENT: dict[Callable[[], None], float] = {}
"""Callback that frees a loan -> its bytes."""
_lock = threading.Lock()


def lend(size: float, call_back: Callable[[], None]) -> None:
    """Register memory that something other than a model uses until a model needs it.

    Args:
        size: bytes.
        call_back: frees the memory and then calls ``returned``. It may be called from any thread,
            also when the memory is free already.
    """
    with _lock:
        _LENT[call_back] = size


def returned(call_back: Callable[[], None]) -> None:
    """Remove a loan whose memory is free; calling it twice has no effect."""
    with _lock:
        _LENT.pop(call_back, None)


def call_back_beyond(room: float) -> None:
    """Free all loans if together they exceed the free part of the budget.

    Args:
        room: bytes of the budget that no model uses.
    """
    with _lock:
        borrowers = list(_LENT) if sum(_LENT.values()) > room else []
    # Outside the lock: each callback takes it in ``returned``.
    for call_back in borrowers:
        call_back()
