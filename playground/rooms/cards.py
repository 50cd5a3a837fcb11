"""A lesson's cards for a classroom: the content before and after the reveal, and the answer key."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.lessons.answer_key import AnswerKey
from engine.lessons.lesson import Bet
from engine.lessons.library import LessonFile, find_lesson_file, open_lesson
from playground.forms.lesson_data import card_after_bet, card_before_bet

_MAX_DECKS = 16


@dataclass(frozen=True)
class DeckCard:
    """A card.

    Attributes:
        bet: Its question, None for a card without one.
        key: Answer key of the bet, else None.
        seen: Content that the class may see before the reveal.
        before: The same with the names of its runs, see ``lesson_data.before``.
        after: Content added by the reveal, see ``lesson_data.after``.
    """

    bet: Bet | None
    key: AnswerKey | None
    seen: dict[str, Any]
    before: dict[str, Any]
    after: dict[str, Any]


@dataclass(frozen=True)
class Deck:
    """A lesson in one language."""

    lesson: str
    language: str
    title: str
    cards: tuple[DeckCard, ...]


def load_deck(lesson: str, language: str) -> Deck:
    """Return a lesson by name, in English if there is no translation.

    Raises:
        EngineError: The lesson does not exist, or its recorded runs contradict it.
    """
    file = find_lesson_file(lesson, language)
    return read_deck(file.name, file.language, file.path, _modified_ns(file.path))


def _modified_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=_MAX_DECKS)
def read_deck(name: str, language: str, path: Path, changed: int) -> Deck:
    """Return the lesson of a file, cached.

    Args:
        name: Name of the lesson.
        language: Its language.
        path: Its file.
        changed: Modification time of the file, part of the cache key only.

    Raises:
        EngineError: The lesson is not valid.
    """
    del changed
    whole = open_lesson(LessonFile(name, language, path))
    cards = []
    for card in whole.lesson.cards:
        known = card_before_bet(whole, card)
        cards.append(
            DeckCard(
                card.bet,
                whole.answer_key(card),
                _hide_run_names(known),
                known,
                card_after_bet(whole, card),
            )
        )
    return Deck(name, language, whole.lesson.title, tuple(cards))


def _hide_run_names(before_bet: dict[str, Any]) -> dict[str, Any]:
    """Return the content without the runs' names, strategies and ends, which may be the answer."""
    unnamed = {"run": "", "strategy": "", "pictures": [], "until": None}
    return before_bet | {"scenes": [scene | unnamed for scene in before_bet["scenes"]]}
