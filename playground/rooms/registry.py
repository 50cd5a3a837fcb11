"""All rooms of this process: how many there may be, who may open and enter them, and when they end."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from engine.errors import shown
from engine.settings import SETTINGS, Settings
from playground.rooms.deck import Deck, deck_of
from playground.rooms.ration import Ration
from playground.rooms.room import Room, RoomError, sealed
from playground.rooms.state import RoomState, RoomStore

ALPHABET = "34679CDFGHJKMNPQRTVWXY"
"""Of codes: no two of these signs look alike, and without vowels they spell nothing."""
CODE_SIGNS = 6
NO_ROOM = "There is no such room: it has ended, or its code is another one."
_WAIT = "Wait a minute and try again."


class Rooms:
    """The rooms.

    Args:
        store: where they are kept.
        settings: their limits.
        clock: returns seconds.
        deck: returns the lesson of a name and a language.
    """

    def __init__(
        self,
        store: RoomStore | None = None,
        settings: Settings = SETTINGS,
        clock: Callable[[], float] = time.time,
        deck: Callable[[str, str], Deck] = deck_of,
    ) -> None:
        self.store, self.settings, self.clock, self.deck = (
            store or RoomStore(),
            settings,
            clock,
            deck,
        )
        self._rooms: dict[str, Room] = {}
        self._wrong = Ration(settings.room_wrong_codes_per_minute, clock)
        self._new = Ration(settings.room_joins_per_minute, clock)
        self._lock = threading.RLock()

    def open(self, lesson: Any, language: Any, card: Any, address: str) -> tuple[Room, str]:
        """Open a room; return it and its teacher's secret, which nobody else is told.

        Reads the lesson's recorded runs, which may take a moment.

        Args:
            lesson: name of one of the shelf.
            language: of it, two letters.
            card: where the class begins, from 1.
            address: of who asks.

        Raises:
            RoomError: so many are open, or there is no such card.
            EngineError: there is no such lesson, or it is not valid.
        """
        if not isinstance(lesson, str) or not isinstance(language, str):
            raise RoomError("lesson and language have to be texts.", 400)
        deck = self.deck(lesson, language)
        secret = secrets.token_urlsafe(32)
        with self._lock:
            state = RoomState(
                code=self._new_code(),
                secret=sealed(secret),
                lesson=deck.lesson,
                language=deck.language,
                address=address,
                used=self.clock(),
            )
            room = Room(state, deck, self.settings.max_room_people)
            room.show(card)
            self._make_room(address)
            self._rooms[state.code] = room
            self.store.save(state)
        return room, secret

    def _make_room(self, address: str) -> None:
        """Refuse one room too many; of one's own that nobody has entered the oldest gives way."""
        self.sweep()
        own = [room for room in self._rooms.values() if room.state.address == address]
        if len(own) >= self.settings.max_rooms_per_address:
            unused = [room for room in own if not room.state.people]
            if not unused:
                raise RoomError(
                    f"{len(own)} rooms have been opened from here already: close one of them.", 429
                )
            self.close(min(unused, key=lambda room: room.state.used))
        if len(self._rooms) >= self.settings.max_rooms:
            raise RoomError(
                f"{len(self._rooms)} rooms are open already, and no more are possible; try again later.",
                503,
            )

    def _new_code(self) -> str:
        while True:
            code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_SIGNS))
            if code not in self._rooms:
                return code

    def room(self, code: str, address: str, known: str = "") -> Room:
        """Return a room.

        Args:
            code: of it.
            address: of who asks; it may be wrong so many times in a minute.
            known: an id or a secret; whoever is in the room already is let through whoever else was wrong.

        Raises:
            RoomError: there is none, or too many wrong codes came from there.
        """
        self.sweep()
        with self._lock:
            room = self._rooms.get(code)
        if room and known and (room.holds(known) or room.is_taught_by(known)):
            return room
        if not self._wrong.allows(address):
            raise RoomError(f"Too many wrong codes came from your address. {_WAIT}", 429)
        if room is None:
            self._wrong.take(address)
            raise RoomError(NO_ROOM, 404)
        return room

    def enter(self, code: str, participant: str, address: str) -> tuple[Room, str]:
        """Return a room and the id of the participant, a new one where the given one is not known there.

        Raises:
            RoomError: there is no such room, or nobody new may enter.
        """
        room = self.room(code, address, participant)
        if participant and room.holds(participant):
            return room, participant
        if not self._new.take(address):
            raise RoomError(f"Too many people enter from your address at once. {_WAIT}", 429)
        participant = secrets.token_urlsafe(16)
        room.enter(participant)
        self._used(room)
        return room, participant

    def vote(self, code: str, participant: str, address: str, card: Any, answer: Any) -> None:
        """Count a bet.

        Raises:
            RoomError: there is no such room, whoever bets has not entered it, or it takes no bets.
            LessonError: the answer is none of those that the card allows.
        """
        room = self.room(code, address, participant)
        if not room.holds(participant):
            raise RoomError("You have not entered this room yet: open its address.", 403)
        room.vote(participant, card, answer)
        self._used(room)

    def taught(self, code: str, secret: str, address: str) -> Room:
        """Return a room for its teacher.

        Raises:
            RoomError: there is no such room, or it is taught by somebody else.
        """
        room = self.room(code, address, secret)
        if not room.is_taught_by(secret):
            raise RoomError("Only who opened this room may teach in it.", 403)
        return room

    def teach(self, code: str, secret: str, address: str, act: Any, card: Any = None) -> None:
        """Do what the teacher asks for.

        Args:
            code: of the room.
            secret: its teacher's.
            address: of who asks.
            act: ``show`` or ``reveal`` a card, ``lock``, ``unlock`` or ``close``.
            card: from 1; whoever says twice which card comes next does not skip one.

        Raises:
            RoomError: it cannot be done.
        """
        room = self.taught(code, secret, address)
        acts: dict[str, Callable[[], None]] = {
            "show": lambda: room.show(card),
            "reveal": lambda: room.reveal(card),
            "lock": lambda: room.lock(True),
            "unlock": lambda: room.lock(False),
            "close": lambda: self.close(room),
        }
        if not isinstance(act, str) or act not in acts:
            raise RoomError(f"act = {shown(act)} is not allowed: one of {', '.join(acts)}.", 400)
        acts[act]()
        if not room.ended:
            self._used(room)

    def close(self, room: Room) -> None:
        """End a room."""
        with self._lock:
            self._rooms.pop(room.state.code, None)
            self.store.remove(room.state.code)
        room.end()

    def sweep(self) -> None:
        """End the rooms that nobody has used for so long."""
        oldest = self.clock() - self.settings.room_idle_s
        with self._lock:
            for room in [room for room in self._rooms.values() if room.state.used < oldest]:
                self.close(room)

    def _used(self, room: Room) -> None:
        room.state.used = self.clock()
        self.store.save(room.state)
