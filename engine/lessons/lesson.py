"""What a lesson is: runs, and cards with a situation, a bet and a reveal. Plain values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from engine.errors import EngineError

KINDS = ("token", "number", "order", "truth", "choice", "text")
"""What a bet may ask for."""
HIDES = ("future", "picture", "nothing")
"""What is hidden until the bet: the step and all after it, the pictures alone, or nothing."""
LOOKED = "looked"
"""The picture of what is found."""
UNITS = ("percent", "bits", "tokens", "steps", "")
"""Of the number of a bet; a share is told in percent, nats are told in bits."""


class LessonError(EngineError):
    """A lesson cannot be used; the message names the card and what is wrong with it."""

    code = "lesson"


@dataclass(frozen=True)
class LessonLook:
    """What a lesson asks of a step of a run, when it is recorded: where the model looked, or what a token hung on."""

    name: str
    """What the lesson calls it; each of a step has its own."""
    step: int
    """From 1."""
    method: str
    """One of ``engine.asking.methods.METHODS``."""
    layer: int | None = None
    """Of attention, from 1; None is the mean over all."""
    head: int | None = None

    @property
    def key(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class LessonRun:
    """A run that a lesson looks at: one of the gallery, or one that is asked for."""

    name: str
    recorded: str = ""
    """Name of a run of the gallery; empty where the run is asked for."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """``strategy``, ``model``, ``assistant``, ``prompt`` or ``messages``, ``image``, ``audio``, ``seed``, ``params``,
    ``candidates``."""
    looks: tuple[LessonLook, ...] = ()


@dataclass(frozen=True)
class Scene:
    """One stage of a card: a run at a step, and what is drawn of it."""

    run: str
    step: int
    """From 1."""
    until: int | None = None
    """The last step that is shown after the reveal; None is the end of the run."""
    pictures: tuple[str, ...] = ()
    """Of the run's strategy; empty for the text alone."""


@dataclass(frozen=True)
class BetOption:
    """Something that a bet may be put on."""

    text: str
    """May quote values; of a token the text that stands for it."""
    when: str = ""
    """A choice: an expression that is true of the right one. An order: the value to order by."""


@dataclass(frozen=True)
class Bet:
    """The question of a card."""

    kind: str
    question: str
    options: tuple[BetOption, ...] = ()
    answer: str = ""
    """Expression of the right token, number or truth; empty where the options tell, or none is right."""
    among: int = 0
    """Of a token without options: how many of the step's first candidates are offered."""
    low: float = 0.0
    high: float = 0.0
    by: float = 1.0
    """The distance of two stops of the slider."""
    tolerance: float = 0.0
    unit: str = ""


@dataclass(frozen=True)
class Turn:
    """What a card lets one do with one's own hands: a run opened in its tab with other settings."""

    run: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Card:
    """One idea: what is seen, the bet, and what happened."""

    number: int
    """From 1."""
    title: str
    scenes: tuple[Scene, ...]
    hide: str
    bet: Bet | None
    situation: str
    reveal: str
    why: str = ""
    turn: str = ""
    opens: Turn | None = None
    myth: str = ""
    """The reasonable, wrong idea that the card disproves."""
    holds: tuple[str, ...] = ()
    """Expressions that have to be true of the runs for the card's words to be."""


@dataclass(frozen=True)
class Lesson:
    """A lesson in one language."""

    name: str
    language: str
    title: str
    audience: str
    summary: str
    minutes: int
    runs: Mapping[str, LessonRun]
    cards: tuple[Card, ...]
