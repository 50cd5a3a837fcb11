"""What there is to keep of a room, as plain values, and where it is kept."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol


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
    version: int = 0
    """Another one after every change that others are to know of."""
    elsewhere: Set[str] = frozenset()
    """Participants who are told news of the room by other processes."""


class Gone(Exception):
    """The room is not there any more."""


class Held(Protocol):
    """What holds a room's state."""

    state: RoomState

    def catch_up(self, state: RoomState) -> None:
        """Take a newer state."""


class RoomStore:
    """Keeps the rooms for as long as this process lives."""

    shared = False
    """Whether other processes may change a room."""

    def __init__(self) -> None:
        self._states: dict[str, RoomState] = {}
        self._lock = threading.Lock()

    def add(self, state: RoomState) -> bool:
        """Keep a new room; return whether its code was free."""
        with self._lock:
            return self._states.setdefault(state.code, state) is state

    def find(self, code: str, version: int = -1) -> RoomState | None:
        """Return a room where it is newer than a version.

        Raises:
            Gone: there is none.
        """
        with self._lock:
            if code not in self._states:
                raise Gone
            return self._states[code] if self._states[code].version > version else None

    @contextmanager
    def changing(self, held: Held) -> Iterator[None]:
        """Let nobody else change a room meanwhile; it has caught up with what others did, and what is done is kept.

        Raises:
            Gone: it has ended.
        """
        yield

    def expire(self, code: str, before: float) -> bool:
        """Forget a room where nobody has used it since a time; return whether it is not there any more."""
        with self._lock:
            known = self._states.get(code)
            if known is not None and known.used < before:
                del self._states[code]
            return code not in self._states

    def listen(self, listeners: Mapping[str, Set[str]]) -> dict[str, int]:
        """Tell others who is told news by this process, and return the versions of these rooms.

        Args:
            listeners: participants by the codes of rooms.
        """
        return {state.code: state.version for state in self.states() if state.code in listeners}

    def remove(self, code: str) -> None:
        """Forget a room; one that is not there is none to forget."""
        with self._lock:
            self._states.pop(code, None)

    def states(self) -> Iterable[RoomState]:
        """Return all that is kept."""
        with self._lock:
            return list(self._states.values())
