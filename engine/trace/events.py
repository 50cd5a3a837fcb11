"""What decode() yields, in order: Started, then StepRecorded and TextDelta, then Finished or Failed."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import EngineError
from engine.trace.records import Step, Trace


@dataclass(frozen=True, slots=True)
class Started:
    """The run is on: ``header`` is a Trace with no steps and no outputs yet."""

    header: Trace


@dataclass(frozen=True, slots=True)
class StepRecorded:
    """The loop decided a step; ``pieces`` are the token ids it names for the first time."""

    step: Step
    pieces: dict[int, str]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The text of an output is now ``text_before[:keep_chars] + text``."""

    sequence: int
    keep_chars: int
    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The run ended and this is all of it."""

    trace: Trace


@dataclass(frozen=True, slots=True)
class Failed:
    """The run could not start or go on; ``trace`` holds what was recorded before, if anything."""

    error: EngineError
    trace: Trace | None = None


Event = Started | StepRecorded | TextDelta | Finished | Failed
