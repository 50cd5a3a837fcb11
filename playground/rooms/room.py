"""A classroom: participants, current card, bets, and the views of class and teacher."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from engine.errors import EngineError, format_value
from engine.lessons.answer_key import check_answer
from engine.messages import Message
from playground.rooms.cards import Deck, DeckCard
from playground.rooms.notifier import Notifier
from playground.rooms.state import RoomState
from playground.rooms.tally import score_answers, tally_answers

TEACHER = ""
"""The teacher's id among the listeners; participants have random ids."""
_MAX_STREAMS = 4
"""Streams per participant: several tabs, and one whose lost connection is not noticed yet."""
_MAX_TEACHER_STREAMS = 8
_PAGE_ONLY_FIELDS = {"turn": [], "opens": None}
"""Fields of a revealed card that only work on the main page, emptied for participants."""


class RoomError(EngineError):
    """A room refuses an action; the message says why.

    Attributes:
        status: HTTP status of the response.
    """

    code = "room"

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


def hash_secret(secret: str) -> str:
    """Return the SHA-256 of a secret, the only part that is stored."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


class Room:
    """An open room. Thread-safe.

    Args:
        state: Its stored state.
        deck: Its lesson.
        most_people: Limit of participants.

    Attributes:
        ended: Whether the room has ended.
        scene: Rings when the class's view changes.
        count: Rings when the teacher's figures change, and with the scene.
    """

    def __init__(self, state: RoomState, deck: Deck, most_people: int) -> None:
        self.state, self.deck, self.most_people = state, deck, most_people
        self.ended = False
        self.scene, self.count = Notifier(), Notifier()
        self._scenes = self._counts = 0
        self._listening: Counter[str] = Counter()
        self._lock = threading.RLock()

    def catch_up(self, state: RoomState) -> None:
        """Replace the state with a newer one of another process and wake the listeners."""
        with self._lock:
            if state.version <= self.state.version:
                return
            before, self.state = self.state, state
            if (before.card, before.revealed) != (state.card, state.revealed):
                self._notify_scene()
            else:
                self._notify_counts()

    @property
    def listeners(self) -> set[str]:
        """Participants with an open stream in this process, and ``TEACHER`` for the teacher."""
        with self._lock:
            return {*self._listening}

    @property
    def card(self) -> DeckCard:
        """The current card."""
        return self.deck.cards[self.state.card - 1]

    @property
    def is_betting_open(self) -> bool:
        """Whether the current card takes bets."""
        return self.card.bet is not None and self.state.card not in self.state.revealed

    def is_taught_by(self, secret: str) -> bool:
        """Return whether a secret is the teacher's, in constant time."""
        return hmac.compare_digest(hash_secret(secret), self.state.secret)

    def has_participant(self, participant: str) -> bool:
        """Return whether a participant has entered."""
        return participant in self.state.people

    def enter(self, participant: str) -> None:
        """Admit a new participant.

        In a full room, the first participant without a bet and with a closed page is removed.

        Raises:
            RoomError: The room is locked or full.
        """
        with self._lock:
            people = self.state.people
            if self.state.locked:
                raise RoomError("This classroom is locked. Ask your teacher to unlock it.", 403)
            if len(people) >= self.most_people:
                idle = next((one for one in people if self._is_idle(one)), None)
                if idle is None:
                    raise RoomError(
                        Message(
                            "This room is full: it holds {most_people} people.",
                            most_people=self.most_people,
                        ),
                        403,
                    )
                del people[idle]
            people[participant] = None
            self._notify_counts()

    def _is_idle(self, participant: str) -> bool:
        bets = any(participant in votes for votes in self.state.votes.values())
        return not bets and participant not in {*self._listening, *self.state.elsewhere}

    def vote(self, participant: str, card: Any, answer: Any) -> None:
        """Count a bet on the current card, replacing the participant's earlier one.

        Raises:
            RoomError: The class is at another card, or the card takes no bets.
            LessonError: The card does not allow the answer.
        """
        with self._lock:
            self._check_current_card(card)
            bet, key = self.card.bet, self.card.key
            if bet is None or key is None:
                raise RoomError("This card asks nothing.", 409)
            if not self.is_betting_open:
                raise RoomError("The answer has been shown: this card takes no more bets.", 409)
            answer = check_answer(bet, key, answer)
            # A lone surrogate cannot be encoded as UTF-8 for the streams or the database.
            if isinstance(answer, str) and any("\ud800" <= sign <= "\udfff" for sign in answer):
                raise RoomError("answer is no text: it contains half a character.", 400)
            self.state.votes.setdefault(self.state.card, {})[participant] = answer
            self._notify_counts()

    def _check_current_card(self, card: Any) -> None:
        if type(card) is not int or card != self.state.card:
            raise RoomError(
                Message(
                    "The class is at card {at}, not {card}.",
                    at=self.state.card,
                    card=format_value(card),
                ),
                409,
            )

    def show(self, card: Any) -> None:
        """Move the class to a card.

        Raises:
            RoomError: The card does not exist.
        """
        with self._lock:
            if type(card) is not int or not 1 <= card <= len(self.deck.cards):
                raise RoomError(
                    Message(
                        "card = {card} is not allowed: from 1 to {cards}.",
                        card=format_value(card),
                        cards=len(self.deck.cards),
                    ),
                    400,
                )
            self.state.card = card
            self._notify_scene()

    def reveal(self, card: Any) -> None:
        """Show the answer of the current card.

        Raises:
            RoomError: The class is at another card.
        """
        with self._lock:
            self._check_current_card(card)
            self.state.revealed.add(self.state.card)
            self._notify_scene()

    def lock(self, locked: bool) -> None:
        """Lock the room for new participants, or unlock it."""
        with self._lock:
            self.state.locked = locked
            self._notify_counts()

    def end(self) -> None:
        """End the room and notify all streams."""
        with self._lock:
            self.ended = True
            self._notify_scene()

    def _notify_scene(self) -> None:
        self._scenes += 1
        self.scene.notify_all()
        self._notify_counts()

    def _notify_counts(self) -> None:
        # Wakes the teacher's stream only: a bet must not cost a message to every participant.
        self._counts += 1
        self.count.notify_all()

    def check_listener(self, listener: str) -> None:
        """Check that a participant or the teacher may open another stream.

        Raises:
            RoomError: Too many streams are open.
        """
        most = _MAX_STREAMS if listener else _MAX_TEACHER_STREAMS
        if self._listening[listener] >= most:
            raise RoomError("This room is open in too many tabs: close some of them.", 429)

    @contextmanager
    def count_listener(
        self, listener: str, began: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        """Count a stream while the block runs; ``began`` is called once it is counted."""
        with self._lock:
            self._listening[listener] += 1
            self._notify_counts()
        began()
        try:
            yield
        finally:
            with self._lock:
                self._listening[listener] -= 1
                if not self._listening[listener]:
                    del self._listening[listener]
                self._notify_counts()

    def class_scene(self) -> tuple[int, dict[str, Any]]:
        """Return the scene's number and the class's view: the card, plus the revealed answer."""
        with self._lock:
            scene = self._position() | {"before": self.card.seen}
            if self.state.card in self.state.revealed:
                scene["after"] = self.card.after | _PAGE_ONLY_FIELDS
                scene["tally"] = self._tally()
            return self._scenes, scene

    def teacher_scene(self) -> tuple[int, dict[str, Any]]:
        """Return the scene's number and the teacher's view with the whole card."""
        with self._lock:
            whole = {"before": self.card.before, "after": self.card.after}
            return self._scenes, self._position() | whole

    def figures(self) -> tuple[int, dict[str, Any]]:
        """Return the figures' number and the teacher's figures of the class."""
        with self._lock:
            return self._counts, {
                "card": self.state.card,
                "revealed": self.state.card in self.state.revealed,
                "locked": self.state.locked,
                "here": len((self.listeners | self.state.elsewhere) - {TEACHER}),
                "entered": len(self.state.people),
                "tally": self._tally(),
                "words": self._text_answers(),
            }

    def answer_of(self, participant: str) -> Any:
        """Return a participant's bet on the current card, None if there is none."""
        with self._lock:
            return self.state.votes.get(self.state.card, {}).get(participant)

    def _position(self) -> dict[str, Any]:
        return {
            "title": self.deck.title,
            "language": self.deck.language,
            "card": self.state.card,
            "cards": len(self.deck.cards),
            "revealed": self.state.card in self.state.revealed,
        }

    def _answers(self) -> list[Any]:
        return list(self.state.votes.get(self.state.card, {}).values())

    def _tally(self) -> dict[str, Any] | None:
        bet, key, answers = self.card.bet, self.card.key, self._answers()
        if bet is None or key is None:
            return None
        return tally_answers(bet, key, answers) | score_answers(bet, key, answers)

    def _text_answers(self) -> list[str]:
        """Return the free-text answers, for the teacher only: they may contain anything."""
        return [answer for answer in self._answers() if isinstance(answer, str)]
