"""What a run measures beside its text: whatever fails there, the run stands and its trace says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engine.errors import Cancelled, EngineError
from engine.trace.events import Checking

T = TypeVar("T")


class LeftOut(Exception):
    """Somebody stopped an addition; the message says how far it had come."""


class Additions:
    """Makes additions and remembers, in sentences, which of them failed.

    Attributes:
        notes: one sentence per addition that could not be made, for the trace.
        tell: gets Checking events.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.tell: Callable[[Checking], None] = _nobody
        self._begun = False

    def progress(self, done: int, total: int, what: str) -> None:
        """Say how far an addition has come; the text is whole by then.

        Args:
            done: of what is counted.
            total: of the same, at least 1.
            what: is counted, in the plural.

        Raises:
            Cancelled: nobody waits for the run any more.
        """
        self._begun = True
        self.tell(Checking(done, total, what))

    def note(self, sentence: str) -> None:
        """Keep a sentence for the trace, once; an empty one says nothing."""
        if sentence and sentence not in self.notes:
            self.notes.append(sentence)

    def begun(self) -> bool:
        """Return whether any addition has begun since this was last asked."""
        begun, self._begun = self._begun, False
        return begun

    def make(self, what: str, compute: Callable[[], T], otherwise: T) -> T:
        """Return what ``compute`` returns, or ``otherwise`` with a note where it fails.

        Args:
            what: what is made, as the beginning of a sentence.
            compute: makes it.
            otherwise: stands in for it.

        Raises:
            Cancelled: nobody waits for the run any more.
        """
        try:
            return compute()
        except Cancelled:
            raise
        except LeftOut as left:
            self.notes.append(f"{what} is left out: {left}")
            return otherwise
        except Exception as error:  # an addition may fail in any way a model's code can
            # A foreign message may quote the prompt, so only ours are repeated.
            own = isinstance(error, EngineError)
            why = str(error) if own else f"{type(error).__name__} was raised."
            self.notes.append(f"{what} is missing: {why}")
            return otherwise


def _nobody(event: Checking) -> None:
    del event
