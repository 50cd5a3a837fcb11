"""The engine's line without its clock: who is served next, in steps that take logarithmic time.

``engine.run.scheduler.RunQueue`` looks through all places whenever one looks for its turn, which is right for the
tens that wait in one process and too slow for the millions that a simulation serves. A test drives both.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any


@dataclass(slots=True)
class Stand:
    """Somebody's place in a line.

    Attributes:
        address: where from; an address takes its turns as one.
        session: which page there.
        what: whatever it stands for.
    """

    address: Hashable
    session: Hashable
    what: Any = None
    came: int = 0
    address_turn: int = 0
    session_turn: int = 0


@dataclass(slots=True)
class _Address:
    """The places of one address."""

    here: int = 0
    last_turn: int = -1
    turns: list[int] = field(default_factory=list)
    """Heap of the turns of those that wait; who gets which is seen when one is let in."""
    places: list[tuple[int, int, Stand]] = field(default_factory=list)
    """Heap of (session's turn, arrival, place) of those that wait."""
    inside: list[int] = field(default_factory=list)
    """Sessions' turns of those let in."""
    sessions: dict[Hashable, list[int]] = field(default_factory=dict)
    """Session -> [places here, the last turn it was given]."""


class FairLine:
    """Places in the order in which RunLine lets them in: start-time fair queueing of addresses, then of sessions."""

    def __init__(self) -> None:
        self._addresses: dict[Hashable, _Address] = {}
        # (first turn, arrival of whom it goes to, address); an entry that is not its address's first any more is old.
        self._heads: list[tuple[int, int, int, Hashable]] = []
        self._inside: dict[int, Stand] = {}
        self._number = count()
        self.waiting = 0

    def __len__(self) -> int:
        return self.waiting + len(self._inside)

    def add(self, place: Stand) -> None:
        """Put a place last, with one turn after its address's own, and none before those now served."""
        address = self._addresses.setdefault(place.address, _Address())
        place.came = next(self._number)
        floor = self._least_turn()
        place.address_turn = max(floor, 1 + (address.last_turn if address.here else -1))
        here, last = address.sessions.get(place.session, [0, -1])
        place.session_turn = max(_least_session(address), 1 + (last if here else -1))
        address.sessions[place.session] = [here + 1, place.session_turn]
        address.here += 1
        address.last_turn = place.address_turn
        heappush(address.turns, place.address_turn)
        heappush(address.places, (place.session_turn, place.came, place))
        self._head(place.address, address)
        self.waiting += 1

    def let_in(self) -> Stand | None:
        """Let the next place in and return it; None where nobody waits."""
        while self._heads:
            turn, came, _, name = heappop(self._heads)
            address = self._addresses.get(name)
            if address is None or not address.places or not _current(address, turn, came):
                continue
            place = heappop(address.places)[2]
            place.address_turn = heappop(address.turns)
            address.inside.append(place.session_turn)
            self._inside[place.came] = place
            self.waiting -= 1
            if address.places:
                self._head(name, address)
            return place
        return None

    def peek(self) -> Stand | None:
        """Return who would be let in next."""
        while self._heads:
            turn, came, _, name = self._heads[0]
            address = self._addresses.get(name)
            if address is not None and address.places and _current(address, turn, came):
                return address.places[0][2]
            heappop(self._heads)
        return None

    def leave(self, place: Stand) -> None:
        """Forget a place that was let in."""
        address = self._addresses[place.address]
        del self._inside[place.came]
        address.inside.remove(place.session_turn)
        own = address.sessions[place.session]
        own[0] -= 1
        if not own[0]:
            del address.sessions[place.session]
        address.here -= 1
        if not address.here:
            del self._addresses[place.address]

    def _least_turn(self) -> int:
        turns = [place.address_turn for place in self._inside.values()]
        first = self.peek()
        if first is not None:
            turns.append(self._heads[0][0])
        return min(turns, default=0)

    def _head(self, name: Hashable, address: _Address) -> None:
        heappush(self._heads, (address.turns[0], address.places[0][1], next(self._number), name))


def _least_session(address: _Address) -> int:
    turns = list(address.inside)
    if address.places:
        turns.append(address.places[0][0])
    return min(turns, default=0)


def _current(address: _Address, turn: int, came: int) -> bool:
    return address.turns[0] == turn and address.places[0][1] == came
