"""Data classes of a lesson: its runs, and cards with a situation, a bet and a reveal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from engine.errors import EngineError

BET_KINDS = ("token", "number", "order", "truth", "choice", "text")
"""Kinds of bets."""
HIDE_MODES = ("future", "picture", "nothing")
"""What is hidden until the bet: the step and all later ones, the pictures only, or nothing."""
INFLUENCE_PICTURE = "looked"
"""Name of the picture that shows influence."""
DIAL_MAP_PICTURE = "dial_map"
"""Name of the picture that shows every text along a dial."""
BET_UNITS = ("percent", "bits", "tokens", "steps", "")
"""Units of a number bet; shares are shown in percent and nats in bits."""


class LessonError(EngineError):
    """A lesson is invalid; the message names the card and the fault."""

    code = "lesson"


@dataclass(frozen=True)
class LessonInfluence:
    """A question about what influenced a step, answered when the run is recorded."""

    name: str
    """Name in the lesson; unique for a step."""
    step: int
    """Number of the step, from 1."""
    method: str
    """One of ``engine.inspection.influence_methods.METHODS``."""
    layer: int | None = None
    """Attention only: the layer from 1; None is the mean over all layers."""
    head: int | None = None

    @property
    def key(self) -> dict[str, Any]:
        """Return the question as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class LessonRun:
    """A run of a lesson: a run of the gallery or a request."""

    name: str
    recorded: str = ""
    """Name of a run of the gallery; empty for a request."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """``strategy``, ``model``, ``assistant``, ``prompt`` or ``messages``, ``image``, ``audio``,
    ``seed``, ``params``, ``candidates``."""
    looks: tuple[LessonInfluence, ...] = ()


@dataclass(frozen=True)
class Scene:
    """What a card shows: a run at a step and its pictures."""

    run: str
    step: int
    """Number of the step, from 1."""
    until: int | None = None
    """Last step shown after the reveal; None is the end of the run."""
    pictures: tuple[str, ...] = ()
    """Names of the strategy's pictures; empty shows the text only."""


@dataclass(frozen=True)
class BetOption:
    """One option of a bet."""

    text: str
    """Text of the option, which may quote values; for a token bet the token's text."""
    when: str = ""
    """Choice: an expression that is true for the right option. Order: the value to sort by."""


@dataclass(frozen=True)
class Bet:
    """The question of a card."""

    kind: str
    question: str
    options: tuple[BetOption, ...] = ()
    answer: str = ""
    """Expression of the right token, number or truth; empty if the options decide or nothing is
    right."""
    among: int = 0
    """Token bet without options: how many of the step's top candidates are offered."""
    low: float = 0.0
    high: float = 0.0
    by: float = 1.0
    """Step size of the slider."""
    tolerance: float = 0.0
    unit: str = ""


@dataclass(frozen=True)
class OpenAction:
    """The action of a card's button: open a run in its tab with changed settings."""

    run: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Card:
    """One idea of a lesson: a situation, a bet and a reveal."""

    number: int
    """Number of the card, from 1."""
    title: str
    scenes: tuple[Scene, ...]
    hide: str
    bet: Bet | None
    situation: str
    reveal: str
    why: str = ""
    turn: str = ""
    opens: OpenAction | None = None
    myth: str = ""
    """The common misconception that the card disproves."""
    holds: tuple[str, ...] = ()
    """Expressions that must be true for the runs so that the card's statements are true."""


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
