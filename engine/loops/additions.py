"""What a run measures beside its text: whatever fails there, the run stands and its trace says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engine.errors import Cancelled, EngineError

T = TypeVar("T")


class Additions:
    """Makes additions and remembers, in sentences, which of them failed.

    Attributes:
        notes: one sentence per addition that could not be made, for the trace.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []

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
        except Exception as error:  # an addition may fail in any way a model's code can
            # A foreign message may quote the prompt, so only ours are repeated.
            own = isinstance(error, EngineError)
            why = str(error) if own else f"{type(error).__name__} was raised."
            self.notes.append(f"{what} is missing: {why}")
            return otherwise
