"""What is known of a run that is made again: what of it is new, and whether it comes out as it did."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from engine.run.work import Work
from engine.serving.repeat import Differs, Repeat
from engine.trace.events import StartedAnew, TextDelta
from engine.trace.json_io import step_from_dict, trace_from_dict
from engine.trace.records import Step, Trace
from playground.journal import JOURNAL, Messages
from playground.kept.runs import WrittenRun


class Remade:
    """A run whose process is gone, as far as it was written down.

    Args:
        run_id: what it has been called from its beginning.
        known: what there is of it; its messages have to be of this form of traces.

    Raises:
        TraceError: they are not.
    """

    def __init__(self, run_id: str, known: WrittenRun) -> None:
        self.run_id, self.known = run_id, known
        self._repeat: Repeat | None = repeat_of([json.loads(text) for text in known.texts])

    @property
    def header(self) -> Trace | None:
        """What it said of itself, None for one that had not begun."""
        return self._repeat.header if self._repeat else None

    @property
    def steps(self) -> Sequence[Step]:
        """Those that were written down."""
        return self._repeat.steps if self._repeat else ()

    def open(self, run: Work) -> Messages:
        """Go on with its record."""
        return JOURNAL.reopen(run, self.known, self.run_id)

    def news(self, events: list[Any]) -> tuple[list[Any], int | None]:
        """Return what of the next events is new, and None.

        Where the run comes out differently it is all that came this time, and after how many steps.
        """
        found: list[Any] = []
        for at, event in enumerate(events):
            if isinstance(event, StartedAnew):
                self._repeat = None
            if self._repeat is None:
                return found + events[at:], None
            try:
                found += self._repeat.take([event])
            except Differs as differs:
                self._repeat = None
                return [*differs.events, *events[at + 1 :]], differs.step
        return found, None


def repeat_of(messages: Sequence[Mapping[str, Any]]) -> Repeat:
    """Return what the messages of a run bring, to be compared with the same run made again.

    Raises:
        TraceError: they are none of this form of traces.
    """
    if not messages:
        return Repeat()
    fields = {k: v for k, v in messages[0]["header"].items() if k != "fields"}
    header = trace_from_dict({**fields, "steps": [], "outputs": []})
    deltas = [message for message in messages if message["kind"] == "delta"]
    return Repeat.of(
        header,
        [step_from_dict(step) for delta in deltas for step in delta["steps"]],
        [TextDelta(*text) for delta in deltas for text in delta["texts"]],
        {int(k): piece for delta in deltas for k, piece in delta["pieces"].items()},
        note=made_again,
    )


def made_again(losses: Sequence[int]) -> str:
    """Return the sentence about the server that was lost after so many steps."""
    after = _steps(losses[-1])
    return f"The server of this run ended after {after}; another one made it again, and every step was the same."


def otherwise(step: int) -> str:
    """Return the sentence about a run that did not come out as it did before."""
    return (
        f"The server of this run ended, and made again it came out differently after {_steps(step)};"
        " it was started anew."
    )


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"
