"""Evictions: which models were removed from memory or disk, and for which model."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque

_KEPT = 100
"""Number of evictions remembered for visitors who wait for a model."""
_BOARD: deque[tuple[int, str, str, str]] = deque(maxlen=_KEPT)
_NUMBERS = itertools.count(1)
_lock = threading.Lock()
_LOG = logging.getLogger("engine")


def note(model: str, place: str, room_for: str) -> None:
    """Record that a model was evicted.

    Args:
        model: the evicted model's name.
        place: ``memory`` or ``disk``.
        room_for: name of the model that needed the space.
    """
    _LOG.info("a model left %s to make room", place)
    with _lock:
        _BOARD.append((next(_NUMBERS), model, place, room_for))


def mark() -> int:
    """Return a position in the list of evictions, for ``since``."""
    with _lock:
        return next(_NUMBERS)


def since(number: int, room_for: str, place: str) -> tuple[str, ...]:
    """Return the models evicted for another one since a mark, oldest first.

    Args:
        number: the value of ``mark``.
        room_for: name of the model they were evicted for.
        place: ``memory`` or ``disk``.
    """
    with _lock:
        found = [name for n, name, *why in _BOARD if n > number and why == [place, room_for]]
    return tuple(dict.fromkeys(found))
