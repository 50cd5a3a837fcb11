"""Events of decode(), in order: Started, then StepRecorded and TextDelta, then Finished or Failed.

Waiting and Loading report progress before Started, Paused during the run, Checking after the text.
Local and remote engines send the same events. A consumer may ignore progress.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import EngineError
from engine.trace.records import Step, Trace


@dataclass(frozen=True, slots=True)
class Waiting:
    """The run is in the queue; sent again if its position changes, and once a second."""

    position: int
    """Runs ahead of it, including running ones; at least 1."""
    expected_s: float | None
    """Estimated seconds until it starts, from recent runs; None without recent runs."""


@dataclass(frozen=True, slots=True)
class Paused(Waiting):
    """The run has begun, and gives way to another address; sent again once a second."""


@dataclass(frozen=True, slots=True)
class Loading:
    """A model of the run is being downloaded, converted or loaded."""

    model: str
    """Its name in the request."""
    got: int = 0
    """Bytes downloaded so far."""
    total: int = 0
    """Bytes to download in all; 0 if there are none or the size is not known yet."""
    per_s: float = 0.0
    """Download rate in bytes per second; 0 while unknown."""
    converting: str = ""
    """Backend for which the model is being converted; empty if it is not."""
    left_memory: tuple[str, ...] = ()
    """Least recently used models that were unloaded from memory for this one."""
    left_disk: tuple[str, ...] = ()
    """Models that were deleted from the disk of a public Space for this one."""


@dataclass(frozen=True, slots=True)
class Checking:
    """The text is complete; measurements of it are still running."""

    done: int
    total: int
    """At least 1."""
    what: str
    """The unit that is counted; follows "37 of 200" in a sentence."""


@dataclass(frozen=True, slots=True)
class Started:
    """The run has started; ``header`` is a Trace without steps and outputs."""

    header: Trace


@dataclass(frozen=True, slots=True)
class RunReplaced:
    """A run repeated after the loss of its replica gave other steps: it ends, and a new run begins.

    The events of the new run follow, from its Started.
    """

    run_id: str
    """Id of the new run."""
    step: int
    """Number of steps of the old run that were reproduced."""


@dataclass(frozen=True, slots=True)
class StepRecorded:
    """The loop decided a step; ``pieces`` maps its new token ids to their pieces.

    In the trace, the last step may hold more: measurements made after it was sent.
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
    """The run has ended; ``trace`` is its complete record."""

    trace: Trace


@dataclass(frozen=True, slots=True)
class Failed:
    """The run failed; ``trace`` holds what was recorded until then, if anything."""

    error: EngineError
    trace: Trace | None = None


Progress = Waiting | Loading | Checking
Event = Progress | Started | RunReplaced | StepRecorded | TextDelta | Finished | Failed
