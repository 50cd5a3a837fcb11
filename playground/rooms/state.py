"""The stored state of a classroom, and the in-memory store."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass
class RoomState:
    """The state of a room that is stored."""

    code: str
    secret: str
    """SHA-256 of the teacher's secret."""
    lesson: str
    language: str
    address: str
    """Network address that opened it; the number of rooms per address is limited."""
    used: float
    """Time of the last entry, bet or action of the teacher, in seconds of the registry's clock."""
    card: int = 1
    """Number of the current card, from 1."""
    locked: bool = False
    """Whether the room is closed to new participants."""
    people: dict[str, None] = field(default_factory=dict)
    """Ids of the participants in order of entry. Nothing else about them is stored."""
    votes: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Card -> participant -> latest answer."""
    revealed: set[int] = field(default_factory=set)
    """Cards whose answer has been shown, and which take no more bets."""
    version: int = 0
    """Increases with every change that other processes must see."""
    elsewhere: Set[str] = frozenset()
    """Participants with open streams in other processes; "" stands for the teacher."""


class RoomNotFoundError(Exception):
    """The room does not exist any more."""


class RoomHolder(Protocol):
    """An object that holds a room's state."""

    state: RoomState

    def catch_up(self, state: RoomState) -> None:
        """Replace the state with a newer one."""


class RoomStore:
    """Store of rooms in the memory of this process."""

    shared = False
    """Whether other processes may change a room."""

    def __init__(self) -> None:
        self._states: dict[str, RoomState] = {}
        self._lock = threading.Lock()

    def add(self, state: RoomState) -> bool:
        """Store a new room; return whether its code was free."""
        with self._lock:
            return self._states.setdefault(state.code, state) is state

    def find(self, code: str, version: int = -1) -> RoomState | None:
        """Return a room if it is newer than ``version``, else None.

        Raises:
            Gone: The room does not exist.
        """
        with self._lock:
            if code not in self._states:
                raise RoomNotFoundError
            return self._states[code] if self._states[code].version > version else None

    @contextmanager
    def edit_room(self, held: RoomHolder) -> Iterator[None]:
        """Lock a room for a change: its state is refreshed before the block and stored after it.

        Raises:
            Gone: The room has ended.
        """
        yield

    def expire(self, code: str, before: float) -> bool:
        """Remove a room not used since ``before``; return whether it is gone."""
        with self._lock:
            known = self._states.get(code)
            if known is not None and known.used < before:
                del self._states[code]
            return code not in self._states

    def sync_listeners(self, listeners: Mapping[str, Set[str]]) -> dict[str, int]:
        """Publish who listens through this process, and return the versions of these rooms.

        Args:
            listeners: Code of a room -> participants with an open stream, "" for the teacher.
        """
        return {state.code: state.version for state in self.states() if state.code in listeners}

    def remove(self, code: str) -> None:
        """Remove a room; an unknown code is ignored."""
        with self._lock:
            self._states.pop(code, None)

    def states(self) -> Iterable[RoomState]:
        """Return the states of all rooms."""
        with self._lock:
            return list(self._states.values())
