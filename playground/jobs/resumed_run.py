"""A run repeated after its process died: drops sent steps and detects the first that differs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from engine.messages import Message
from engine.serving.delivery_log import DeliveryLog, RunMismatch
from engine.trace.events import RunReplaced, TextDelta
from engine.trace.json_io import step_from_dict, trace_from_dict
from engine.trace.records import Step, Trace
from playground.storage.run_store import StoredRun


class ResumedRun:
    """The stored part of a run whose process is gone, compared with the same run decoded again.

    Args:
        run_id: Id of the run, unchanged since it started.
        known: The stored run.

    Raises:
        TraceError: Its messages are not in this version's trace format.
    """

    def __init__(self, run_id: str, known: StoredRun) -> None:
        self.run_id, self.known = run_id, known
        self._repeat: DeliveryLog | None = repeat_from_messages(
            [json.loads(text) for text in known.texts]
        )

    @property
    def header(self) -> Trace | None:
        """Header of the stored trace, None if the run had not begun."""
        return self._repeat.header if self._repeat else None

    @property
    def steps(self) -> Sequence[Step]:
        """The stored steps."""
        return self._repeat.steps if self._repeat else ()

    def new_events(self, events: list[Any]) -> tuple[list[Any], int | None]:
        """Return the events that the page does not have yet, and None.

        If the repeated run differs, return all its events so far and the number of steps that
        agree.
        """
        found: list[Any] = []
        for at, event in enumerate(events):
            if isinstance(event, RunReplaced):
                self._repeat = None
            if self._repeat is None:
                return found + events[at:], None
            try:
                found += self._repeat.take_new([event])
            except RunMismatch as differs:
                self._repeat = None
                return [*differs.events, *events[at + 1 :]], differs.step
        return found, None


def repeat_from_messages(messages: Sequence[Mapping[str, Any]]) -> DeliveryLog:
    """Return the stored content of a run's messages, to compare with the repeated run.

    Raises:
        TraceError: The messages are not in this version's trace format.
    """
    if not messages:
        return DeliveryLog()
    fields = {k: v for k, v in messages[0]["header"].items() if k != "fields"}
    header = trace_from_dict({**fields, "steps": [], "outputs": []})
    deltas = [message for message in messages if message["kind"] == "delta"]
    return DeliveryLog.from_delivered(
        header,
        [step_from_dict(step) for delta in deltas for step in delta["steps"]],
        [TextDelta(*text) for delta in deltas for text in delta["texts"]],
        {int(k): piece for delta in deltas for k, piece in delta["pieces"].items()},
        note=resumed_note,
    )


def resumed_note(losses: Sequence[int]) -> str:
    """Return the note that another server repeated the run, with the steps before the loss."""
    after = _steps_text(losses[-1])
    return Message(
        "The server of this run ended after {steps}; another one made it again, and "
        "every step was the same.",
        steps=after,
    )


def diverged_note(step: int) -> str:
    """Return the note that the repeated run differed after ``step`` steps and was restarted."""
    return Message(
        "The server of this run ended. Repeated, the run differed after {steps}, so it was "
        "started again.",
        steps=_steps_text(step),
    )


def _steps_text(count: int) -> str:
    return "1 step" if count == 1 else Message("{n} steps", n=count)
