"""A lesson with a card of every kind, and rooms whose clock a test turns."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from engine.settings import SETTINGS
from playground.rooms import cards
from playground.rooms.registry import RoomRegistry
from playground.rooms.state import RoomStore

HIDDEN = ("the-reveal", "the-why", "the-myth", "the-turn", "tell_tale")
"""Words of every card, and the name of its run, that nobody may read before the reveal."""
_BETS = {
    "token": "{kind: token, question: 'Which token comes?', among: 4}",
    "number": "{kind: number, question: 'How sure?', answer: 'best(step, 1).p', unit: percent, tolerance: 10}",
    "order": "{kind: order, question: 'From the most probable?', options: ["
    "{text: A, value: 'best(step, 3).p'}, {text: B, value: 'best(step, 1).p'}, {text: C, value: 'best(step, 2).p'}]}",
    "truth": "{kind: truth, question: 'Does the best token always win?', answer: 'run.strategy == \"greedy\"'}",
    "choice": "{kind: choice, question: 'What is it?', options: ["
    "{text: A search, if: 'run.strategy != \"greedy\"'}, {text: The favourite, if: 'run.strategy == \"greedy\"'}]}",
    "text": "{kind: text, question: 'Why?'}",
    "": "",
}
KINDS = tuple(_BETS)
"""Of the cards, in their order; the last one asks nothing."""
_CARD = """# A card about {name}

```card
run: tell_tale
step: 3
myth: the-myth
{bet}
```

A story begins.

## Reveal

the-reveal {{percent(best(step, 1).p, 4)}}

## Why

the-why

## Turn it

the-turn
"""


def lesson_text() -> str:
    """Return the lesson as its file has it."""
    head = "---\ntitle: All kinds\nfor: a test\nminutes: 5\nruns:\n  tell_tale: {recorded: greedy-1}\n---\n\n"
    cards = (
        _CARD.format(name=kind or "nothing", bet=f"bet: {bet}" if bet else "")
        for kind, bet in _BETS.items()
    )
    return head + "\n".join(cards)


def write_lesson(folder: Path) -> Path:
    """Put the lesson into a folder and return its file."""
    path = folder / "kinds.md"
    path.write_text(lesson_text())
    return path


class Hand:
    """A clock that stands still until it is turned."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def rooms_of(path: Path, clock: Any, store: RoomStore | None = None, **limits: Any) -> RoomRegistry:
    """Return rooms that know this one lesson.

    Args:
        path: of its file.
        clock: of the rooms.
        store: where they are kept; None for this process's memory.
        limits: settings in place of the usual ones.
    """
    whole = cards.read_deck("kinds", "en", path, 0)

    def named(lesson: str, language: str) -> cards.Deck:
        return whole if lesson == "kinds" else cards.load_deck(lesson, language)

    return RoomRegistry(store, dataclasses.replace(SETTINGS, **limits), clock, named)
