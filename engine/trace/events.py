"""What decode() yields, in order: Started, then StepRecorded and TextDelta, then Finished or Failed.

Waiting, Loading and Checking say what goes on meanwhile: the first two before Started, the last after
the text. They come from every engine, here or elsewhere, and whoever wants the run alone may pass over them.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import EngineError
from engine.trace.records import Step, Trace


@dataclass(frozen=True, slots=True)
class Waiting:
    """The run is in line; told again when its place changes, and once a second."""

    position: int
    """Runs that come before it, those at work included; at least 1."""
    expected_s: float | None
    """Seconds until its turn, from what recent runs took; None while there is nothing to go by."""


@dataclass(frozen=True, slots=True)
class Loading:
    """A model of the run is not in memory yet."""

    model: str
    """As the request names it."""
    got: int = 0
    """Bytes that have come from the hub."""
    total: int = 0
    """Bytes that are to come from there, 0 where nothing is, or where it is not known yet."""
    per_s: float = 0.0
    """Bytes that came in a second, 0 while that is not known."""
    converting: str = ""
    """The backend that the model is being converted for, empty where it is not."""
    left_memory: tuple[str, ...] = ()
    """Models that were used longest ago and left memory to make room for this one."""
    left_disk: tuple[str, ...] = ()
    """The same for the room that a public Space has for the hub's models on its disk."""


@dataclass(frozen=True, slots=True)
class Checking:
    """The text is there; something is measured beside it."""

    done: int
    total: int
    """At least 1."""
    what: str
    """What is counted, to be read after "37 of 200"."""


@dataclass(frozen=True, slots=True)
class Started:
    """The run is on: ``header`` is a Trace with no steps and no outputs yet."""

    header: Trace


@dataclass(frozen=True, slots=True)
class StartedAnew:
    """A run whose replica was lost came out differently elsewhere: it ends here, and another one begins.

    What follows are the events of that one, from its Started.
    """

    run_id: str
    """The id of the run that begins."""
    step: int
    """Steps of the first that came out the same."""


@dataclass(frozen=True, slots=True)
class StepRecorded:
    """The loop decided a step; ``pieces`` are the token ids it names for the first time.

    Of the last step the trace may tell more: what was measured beside the text after it was sent.
    """

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


Progress = Waiting | Loading | Checking
Event = Progress | Started | StartedAnew | StepRecorded | TextDelta | Finished | Failed
