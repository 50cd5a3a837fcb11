"""Optional measurements of a run. A failure becomes a note in the trace and never fails the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engine.errors import Cancelled, EngineError
from engine.messages import Message
from engine.trace.events import Checking

T = TypeVar("T")


class MeasurementStopped(Exception):
    """The visitor stopped an optional measurement; the message says how far it got."""


class OptionalMeasurements:
    """Run optional measurements and collect one note for each that failed.

    Attributes:
        notes: one sentence per missing measurement, for the trace.
        tell: callback for ``Checking`` progress events.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.tell: Callable[[Checking], None] = _ignore_event
        self._begun = False

    def progress(self, done: int, total: int, what: str) -> None:
        """Report the progress of a measurement.

        Args:
            done: units done.
            total: units in all, at least 1.
            what: the unit, in the plural.

        Raises:
            Cancelled: the run was cancelled.
        """
        self._begun = True
        self.tell(Checking(done, total, what))

    def add_note(self, sentence: str) -> None:
        """Add a sentence to the notes unless it is empty or already there."""
        if sentence and sentence not in self.notes:
            self.notes.append(sentence)

    def take_started_flag(self) -> bool:
        """Return and reset the flag: has a measurement reported progress since the last call?"""
        begun, self._begun = self._begun, False
        return begun

    def measure(self, what: str, compute: Callable[[], T], otherwise: T) -> T:
        """Return the result of ``compute``, or ``otherwise`` and a note if it fails.

        Args:
            what: the measurement, as the beginning of a sentence.
            compute: performs the measurement.
            otherwise: the result to use after a failure.

        Raises:
            Cancelled: the run was cancelled.
        """
        try:
            return compute()
        except Cancelled:
            raise
        except MeasurementStopped as left:
            self.notes.append(Message("{what} is left out: {why}", what=what, why=left))
            return otherwise
        except Exception as error:  # a model's code can raise anything
            # Other libraries' messages may quote the prompt, so only our own are repeated.
            own = isinstance(error, EngineError)
            why = str(error) if own else Message("{kind} was raised.", kind=type(error).__name__)
            self.notes.append(Message("{what} is missing: {why}", what=what, why=why))
            return otherwise


def _ignore_event(event: Checking) -> None:
    del event
