"""Which models left memory or the disk to make room, and for which one: whoever waits for that one is told."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque

_KEPT = 100
"""Of the last, for those who wait."""
_BOARD: deque[tuple[int, str, str, str]] = deque(maxlen=_KEPT)
_NUMBERS = itertools.count(1)
_lock = threading.Lock()
_LOG = logging.getLogger("engine")


def note(model: str, place: str, room_for: str) -> None:
    """Note that a model has left.

    Args:
        model: what it is called.
        place: memory or disk.
        room_for: what the model is called that came in its place.
    """
    _LOG.info("a model left %s to make room", place)
    with _lock:
        _BOARD.append((next(_NUMBERS), model, place, room_for))


def mark() -> int:
    """Return a number, to ask later what has left since."""
    with _lock:
        return next(_NUMBERS)


def since(number: int, room_for: str, place: str) -> tuple[str, ...]:
    """Return the models that left a place for another one, the first first.

    Args:
        number: of ``mark``.
        room_for: for which one.
        place: memory or disk.
    """
    with _lock:
        found = [name for n, name, *why in _BOARD if n > number and why == [place, room_for]]
    return tuple(dict.fromkeys(found))
