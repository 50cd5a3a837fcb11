"""What there is to keep of a room, as plain values, and where it is kept."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class RoomState:
    """A room as it is to be found again."""

    code: str
    secret: str
    """SHA-256 of what its teacher is known by."""
    lesson: str
    language: str
    address: str
    """Of who opened it; it has a share of all rooms."""
    used: float
    """When somebody last entered, bet or taught; seconds of the clock of the rooms."""
    card: int = 1
    """Where the class is, from 1."""
    locked: bool = False
    """Whether nobody new may enter."""
    people: dict[str, None] = field(default_factory=dict)
    """The participants' ids, in the order in which they came; nothing else is known of them."""
    votes: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Card -> participant -> the answer that counts."""
    revealed: set[int] = field(default_factory=set)
    """Cards whose answer has been shown; nobody can bet on them any more."""


class RoomStore:
    """Keeps the rooms for as long as this process lives."""

    def __init__(self) -> None:
        self._states: dict[str, RoomState] = {}
        self._lock = threading.Lock()

    def save(self, state: RoomState) -> None:
        """Keep a room as it is now."""
        with self._lock:
            self._states[state.code] = state

    def remove(self, code: str) -> None:
        """Forget a room; one that is not there is none to forget."""
        with self._lock:
            self._states.pop(code, None)

    def states(self) -> Iterable[RoomState]:
        """Return all that is kept."""
        with self._lock:
            return list(self._states.values())
