"""Registry of all classrooms: limits on opening and entering them, and their expiry.

With a shared store each process holds the rooms that were requested from it. Rate limits are
counted per process.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from engine.errors import format_value
from engine.messages import Message
from engine.settings import SETTINGS, Settings
from playground.jobs.rate_limit import RateLimiter
from playground.rooms.cards import Deck, load_deck
from playground.rooms.room import TEACHER, Room, RoomError, hash_secret
from playground.rooms.state import RoomNotFoundError, RoomState, RoomStore
from playground.rooms.watch import RoomWatch

CODE_ALPHABET = "34679CDFGHJKMNPQRTVWXY"
"""Characters of codes: no two look alike, and without vowels they spell no words."""
CODE_LENGTH = 6
# 113 million codes: with 50 rooms and 30 wrong tries a minute, guessing one takes about 50 days.
NO_ROOM = "There is no such room: it has ended, or its code is another one."


class RoomRegistry:
    """All rooms of this process.

    Args:
        store: Store of their states, in memory by default.
        settings: Their limits.
        clock: Returns the time in seconds.
        deck: Returns the lesson of a name and a language.
    """

    def __init__(
        self,
        store: RoomStore | None = None,
        settings: Settings = SETTINGS,
        clock: Callable[[], float] = time.time,
        deck: Callable[[str, str], Deck] = load_deck,
    ) -> None:
        self.store, self.settings, self.clock, self.deck = (
            store or RoomStore(),
            settings,
            clock,
            deck,
        )
        self._rooms: dict[str, Room] = {}
        self._wrong = RateLimiter(settings.room_wrong_codes_per_minute, clock)
        self._new = RateLimiter(settings.room_joins_per_minute, clock)
        self._lock = threading.RLock()
        self._watch = (
            RoomWatch(self.store, self._rooms_with_listeners) if self.store.shared else None
        )

    def open(self, lesson: Any, language: Any, card: Any, address: str) -> tuple[Room, str]:
        """Open a room; return it and the secret of its teacher.

        Reads the lesson's recorded runs, which may take a moment.

        Args:
            lesson: Name of an available lesson.
            language: Its language, two letters.
            card: First card of the class, from 1.
            address: Network address of the teacher.

        Raises:
            RoomError: Too many rooms are open, or the card does not exist.
            EngineError: The lesson does not exist or is not valid.
        """
        if not isinstance(lesson, str) or not isinstance(language, str):
            raise RoomError("lesson and language have to be texts.", 400)
        deck = self.deck(lesson, language)
        secret = secrets.token_urlsafe(32)
        with self._lock:
            state = RoomState(
                code=self._new_code(),
                secret=hash_secret(secret),
                lesson=deck.lesson,
                language=deck.language,
                address=address,
                used=self.clock(),
            )
            room = Room(state, deck, self.settings.max_room_people)
            room.show(card)
            self._enforce_limits(address)
            # Another process may have used the same code meanwhile.
            while not self.store.add(state):
                state.code = self._new_code()
            self._rooms[state.code] = room
        return room, secret

    def _enforce_limits(self, address: str) -> None:
        """Enforce the limits on rooms.

        At a limit, an unused room gives way: the oldest of the address with the most rooms.
        """
        self.sweep()
        states = [state for state in self.store.states() if not self._is_expired(state)]
        own = [state for state in states if state.address == address]
        if len(own) >= self.settings.max_rooms_per_address:
            given_up = self._end_unused_room(own)
            if given_up is None:
                raise RoomError(
                    Message(
                        "{own} rooms have been opened from here already: close one of them.",
                        own=len(own),
                    ),
                    429,
                )
            states.remove(given_up)
        if len(states) >= self.settings.max_rooms and self._end_unused_room(states) is None:
            raise RoomError(
                Message(
                    "{rooms} rooms are open already, and no more are possible; try again later.",
                    rooms=len(states),
                ),
                503,
            )

    def _end_unused_room(self, states: list[RoomState]) -> RoomState | None:
        """End a room that nobody entered and no teacher has open; None if there is none.

        It is the oldest such room of the address with the most rooms.
        """
        unused = [state for state in states if not state.people and not self._is_taught_now(state)]
        if not unused:
            return None
        count = Counter(state.address for state in states)
        given_up = min(unused, key=lambda state: (-count[state.address], state.used))
        self._end(given_up.code)
        return given_up

    def _is_taught_now(self, state: RoomState) -> bool:
        """Return whether a room's teacher has it open, in this process or in another one."""
        room = self._rooms.get(state.code)
        return TEACHER in state.elsewhere or (room is not None and TEACHER in room.listeners)

    def _is_expired(self, state: RoomState) -> bool:
        """Remove a room that has been idle too long, also one that no process holds any more."""
        oldest = self._expiry_time()
        return state.used < oldest and self.store.expire(state.code, oldest)

    def _new_code(self) -> str:
        while True:
            code = "".join(secrets.choice(CODE_ALPHABET) for _ in range(CODE_LENGTH))
            if code not in self._rooms:
                return code

    def find_room(self, code: str, address: str, known: str = "") -> Room:
        """Return a room.

        Args:
            code: Its code.
            address: Network address of the request, with a limit of wrong codes per minute.
            known: Id of a participant or the teacher's secret. Members of the room are not limited,
                since a whole school may share one address.

        Raises:
            RoomError: The room does not exist, or the address sent too many wrong codes.
        """
        self.sweep()
        room = self._current_room(code)
        if room and known and (room.has_participant(known) or room.is_taught_by(known)):
            return room
        if not self._wrong.allows(address):
            raise RoomError(
                "Too many wrong codes came from your address. Wait a minute and try again.",
                429,
            )
        if room is None:
            self._wrong.take(address)
            raise RoomError(NO_ROOM, 404)
        return room

    def _current_room(self, code: str) -> Room | None:
        """Return a room with its newest state from the store, None if it does not exist."""
        with self._lock:
            room = self._rooms.get(code)
        if room is not None and not self.store.shared:
            return room
        try:
            newer = self.store.find(code, room.state.version if room else -1)
        except RoomNotFoundError:
            if room is not None:
                self._end(code)
            return None
        if newer is None:
            return room
        if self._is_expired(newer):
            return None
        if room is None:
            deck = self.deck(newer.lesson, newer.language)
            made = Room(newer, deck, self.settings.max_room_people)
            with self._lock:
                room = self._rooms.setdefault(code, made)
        room.catch_up(newer)
        return room

    def enter(self, code: str, participant: str, address: str) -> tuple[Room, str]:
        """Return a room and the participant's id, a new one if the given id is unknown in the room.

        Raises:
            RoomError: The room does not exist, or no new participant may enter.
        """
        room = self.find_room(code, address, participant)
        if participant and room.has_participant(participant):
            return room, participant
        if not self._new.take(address):
            raise RoomError(
                "Too many people enter from your address at once. Wait a minute and try again.",
                429,
            )
        participant = secrets.token_urlsafe(16)
        with self._edit_room(room):
            room.enter(participant)
        return room, participant

    def vote(self, code: str, participant: str, address: str, card: Any, answer: Any) -> None:
        """Count a bet.

        Raises:
            RoomError: The room does not exist, the participant has not entered it, or it takes no
                bets.
            LessonError: The card does not allow the answer.
        """
        room = self.find_room(code, address, participant)
        if not room.has_participant(participant):
            raise RoomError("You have not entered this room yet: open its address.", 403)
        with self._edit_room(room):
            room.vote(participant, card, answer)

    def find_as_teacher(self, code: str, secret: str, address: str) -> Room:
        """Return a room to its teacher.

        Raises:
            RoomError: The room does not exist, or the secret is not its teacher's.
        """
        room = self.find_room(code, address, secret)
        if not room.is_taught_by(secret):
            raise RoomError("Only who opened this room may teach in it.", 403)
        return room

    def teach(self, code: str, secret: str, address: str, act: Any, card: Any = None) -> None:
        """Perform an action of the teacher.

        Args:
            code: Code of the room.
            secret: The teacher's secret.
            address: Network address of the request.
            act: ``show`` or ``reveal`` a card, ``lock``, ``unlock`` or ``close``.
            card: Number of the card, from 1. It is explicit so that a button pressed twice skips no
                card.

        Raises:
            RoomError: The action is not possible.
        """
        room = self.find_as_teacher(code, secret, address)
        acts: dict[str, Callable[[], None]] = {
            "show": lambda: room.show(card),
            "reveal": lambda: room.reveal(card),
            "lock": lambda: room.lock(True),
            "unlock": lambda: room.lock(False),
            "close": lambda: None,
        }
        if not isinstance(act, str) or act not in acts:
            raise RoomError(
                Message(
                    "act = {act} is not allowed: one of {acts}.",
                    act=format_value(act),
                    acts=", ".join(acts),
                ),
                400,
            )
        if act == "close":
            self.close(room)
            return
        with self._edit_room(room):
            acts[act]()

    def count_open(self) -> tuple[int, int]:
        """Return the numbers of open rooms and of people in them."""
        self.sweep()
        with self._lock:
            return len(self._rooms), sum(len(room.state.people) for room in self._rooms.values())

    def close(self, room: Room) -> None:
        """End a room."""
        self._end(room.state.code)

    def _end(self, code: str) -> None:
        with self._lock:
            room = self._rooms.pop(code, None)
            self.store.remove(code)
        if room is not None:
            room.end()

    def sweep(self) -> None:
        """End the rooms that have been idle for ``room_idle_s``."""
        oldest = self._expiry_time()
        with self._lock:
            old = [room for room in self._rooms.values() if room.state.used < oldest]
        for room in old:
            if self.store.expire(room.state.code, oldest):
                self.close(room)
            else:
                self._current_room(room.state.code)

    def _expiry_time(self) -> float:
        return self.clock() - self.settings.room_idle_s

    def wake_watch(self) -> None:
        """Wake the thread that looks for changes by other processes.

        Nothing without a shared store.
        """
        if self._watch is not None:
            self._watch.wake()

    def _rooms_with_listeners(self) -> list[Room]:
        with self._lock:
            return [room for room in self._rooms.values() if room.listeners]

    @contextmanager
    def _edit_room(self, room: Room) -> Iterator[None]:
        """Lock a room for a change and store the result.

        Raises:
            RoomError: The room has ended.
        """
        try:
            with self.store.edit_room(room):
                yield
                room.state.used = self.clock()
        except RoomNotFoundError:
            self._end(room.state.code)
            raise RoomError(NO_ROOM, 404) from None
