"""What everybody in the hall asks for: few different runs of every strategy, and what each comes to alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.reliability.requests import IN_PROCESS, short_request
from benchmarks.scale.world import Kind
from engine import DecodeRequest, decode
from engine.strategies import STRATEGIES
from engine.trace.events import Failed, Finished, Started, StepRecorded

SHARING = ("greedy", "sampling", "watermark")
"""Strategies whose runs may share passes."""
SEEDS = 2
"""Different runs of a strategy."""


@dataclass
class Told:
    """What somebody heard of one run; times are those of ``time.monotonic()``.

    Attributes:
        indices: of its steps, in the order in which they came.
        tokens: of its texts, None where it did not come to its end.
        error: what it ended with, empty where it came to its end.
        anew: how often it was begun anew under another name.
    """

    pressed_at: float
    began_at: float | None = None
    first_at: float | None = None
    ended_at: float = 0.0
    indices: list[int] = field(default_factory=list)
    tokens: tuple[tuple[int, ...], ...] | None = None
    seed: int | None = None
    error: str = ""
    anew: int = 0

    @property
    def wait_s(self) -> float:
        """Seconds from the press to its turn."""
        return (self.began_at or self.ended_at) - self.pressed_at

    @property
    def first_s(self) -> float:
        """Seconds from the press to its first step."""
        return (self.first_at or self.ended_at) - self.pressed_at

    @property
    def work_s(self) -> float:
        """Seconds from its turn to its end."""
        return self.ended_at - (self.began_at or self.ended_at)


def requests_of(steps: int, custom: bool = True) -> list[DecodeRequest]:
    """Return the different runs of all strategies, in the order in which they are asked for.

    Args:
        steps: most new tokens of each.
        custom: whether custom methods, each in a process of its own, are among them.
    """
    names = list(STRATEGIES) if custom else IN_PROCESS
    return [short_request(name, seed, steps) for seed in range(SEEDS) for name in names]


def heard(request: DecodeRequest, ask: Callable[[DecodeRequest], Iterable[Any]] = decode) -> Told:
    """Ask for a run and listen to its end.

    Args:
        request: what is asked for.
        ask: whom: an engine, here or elsewhere.
    """
    told = Told(time.monotonic())
    for event in ask(request):
        _take(told, event)
    told.ended_at = time.monotonic()
    return told


def _take(told: Told, event: Any) -> None:
    if isinstance(event, Started):
        told.seed = event.header.seed
        told.began_at = told.began_at or time.monotonic()
    elif isinstance(event, StepRecorded):
        told.first_at = told.first_at or time.monotonic()
        told.indices.append(event.step.index)
    elif isinstance(event, Finished):
        told.tokens = tuple(tuple(output.token_ids) for output in event.trace.outputs)
    elif isinstance(event, Failed):
        told.error = str(event.error)
    elif type(event).__name__ == "StartedAnew":
        told.anew += 1
        told.indices.clear()


def alone(
    requests: Sequence[DecodeRequest],
    repeats: int,
    ask: Callable[[DecodeRequest], Iterable[Any]] = decode,
) -> list[list[Told]]:
    """Run every request by itself, ``repeats`` times in turns; a first time, which loads, is not kept."""
    found: list[list[Told]] = [[] for _ in requests]
    for turn in range(repeats + 1):
        for number, request in enumerate(requests):
            told = heard(request, ask)
            if turn:
                found[number].append(told)
    return found


def kinds_of(requests: Sequence[DecodeRequest], solo: Sequence[Sequence[Told]]) -> list[Kind]:
    """Return the requests as a simulation takes them: with all that they took alone."""
    return [
        Kind(
            request.strategy,
            tuple(told.ended_at - told.pressed_at for told in all_told),
            tuple(told.first_s for told in all_told),
            len(all_told[0].indices),
            request.strategy in SHARING,
        )
        for request, all_told in zip(requests, solo, strict=True)
    ]
