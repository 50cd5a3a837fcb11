"""A lesson as a room needs it: of every card what is shown before the reveal, what after it, and what is right."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.lessons.lesson import Bet
from engine.lessons.marking import Key
from engine.lessons.shelf import Shelved, find, opened
from playground.lesson_data import after, before

_KEPT = 16


@dataclass(frozen=True)
class DeckCard:
    """A card.

    Attributes:
        bet: what it asks; None where it asks nothing.
        key: of the bet, else None.
        seen: what a class may see before the reveal.
        before: the same with what its runs are, as ``lesson_data.before`` has it.
        after: what is told by the reveal, as ``lesson_data.after`` has it.
    """

    bet: Bet | None
    key: Key | None
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


def deck_of(lesson: str, language: str) -> Deck:
    """Return a lesson of the shelf, in English where it is not in a language.

    Raises:
        EngineError: there is none of this name, or its runs do not bear it out.
    """
    file = find(lesson, language)
    return read_deck(file.name, file.language, file.path, _changed(file.path))


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=_KEPT)
def read_deck(name: str, language: str, path: Path, changed: int) -> Deck:
    """Return the lesson of a file.

    Args:
        name: of the lesson.
        language: of it.
        path: of its file.
        changed: when it was written last; another number is another lesson.

    Raises:
        EngineError: it is not valid.
    """
    del changed
    whole = opened(Shelved(name, language, path))
    cards = []
    for card in whole.lesson.cards:
        known = before(whole, card)
        cards.append(DeckCard(card.bet, whole.key(card), _seen(known), known, after(whole, card)))
    return Deck(name, language, whole.lesson.title, tuple(cards))


def _seen(before_bet: dict[str, Any]) -> dict[str, Any]:
    """Return what is seen without what runs are called, are made by and come to: it may be what is asked for."""
    unnamed = {"run": "", "strategy": "", "pictures": [], "until": None}
    return before_bet | {"scenes": [scene | unnamed for scene in before_bet["scenes"]]}
