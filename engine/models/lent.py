"""Memory of the models' budget that something else has until a model needs it."""

from __future__ import annotations

import threading
from collections.abc import Callable

_LENT: dict[Callable[[], None], float] = {}
"""How it is called back -> bytes."""
_lock = threading.Lock()


def lend(size: float, call_back: Callable[[], None]) -> None:
    """Note that something takes memory.

    Args:
        size: in bytes.
        call_back: frees it and says so by ``returned``; may be called from any thread and where it is free already.
    """
    with _lock:
        _LENT[call_back] = size


def returned(call_back: Callable[[], None]) -> None:
    """Note that what was lent is free; again does nothing."""
    with _lock:
        _LENT.pop(call_back, None)


def call_back_beyond(room: float) -> None:
    """Call everything back where more is lent than there is room for.

    Args:
        room: bytes of the budget that no model takes.
    """
    with _lock:
        borrowers = list(_LENT) if sum(_LENT.values()) > room else []
    # Outside the lock, which they need to say that they have done so.
    for call_back in borrowers:
        call_back()
