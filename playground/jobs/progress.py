"""Progress messages for a waiting page, and background work that reports them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, TypeVar

from engine.run.jobs import FunctionJob, JobStream
from engine.run.progress import format_progress
from engine.run.scheduler import RUN_QUEUE, EventCallback
from engine.settings import SETTINGS
from engine.trace.events import Checking, Failed, Loading, Progress, Waiting

T = TypeVar("T")
HEARTBEAT_S = 1.0
"""Longest silence towards a page. Gradio notices a closed tab only when it sends something."""
_MAX_HEARTBEAT_S = 3.5
"""Below the five seconds of silence after which a page asks whether its run still exists."""
STARTING = {"phase": "starting", "says": "Starting…"}
DECODING = {"phase": "decoding", "says": "Decoding…"}
_PHASES = {Waiting: "waiting", Loading: "loading", Checking: "checking"}


def heartbeat_interval_s() -> float:
    """Return the longest seconds between two messages to a page; longer while many runs wait."""
    # A message a second for each of a hundred waiting pages slows the decoding run itself.
    return min(max(HEARTBEAT_S, RUN_QUEUE.event_interval_s), _MAX_HEARTBEAT_S)


def to_message(event: Progress) -> dict[str, str]:
    """Convert an event to a progress message with ``phase`` and the sentence ``format_progress``."""
    return {"phase": _PHASES[type(event)], "says": format_progress(event)}


def with_progress(
    do: Callable[[EventCallback, threading.Event], T],
    begin: Callable[[JobStream], None] = lambda work: None,
) -> Generator[dict[str, str], None, T]:
    """Run a function in a separate thread and yield progress messages until it returns.

    Args:
        do: Called with a function that takes its events, and an event that is set to cancel it.
        begin: Called with the work, which can be cancelled.

    Returns:
        What ``do`` returned.

    Raises:
        EngineError: Raised by ``do``.
    """
    results: list[T] = []

    def job(send: EventCallback, cancelled: threading.Event) -> None:
        results.append(do(send, cancelled))

    with closing(JobStream(lambda send, cancelled: FunctionJob(job, send, cancelled))) as work:
        begin(work)
        last = STARTING
        for events in work.batches(1 / SETTINGS.updates_per_s, heartbeat_interval_s()):
            for event in events:
                if isinstance(event, Failed):
                    raise event.error
                last = to_message(event)
            yield last
    return results[0]


def last_progress_message(events: list[Any]) -> dict[str, str] | None:
    """Return the progress message if a batch of events ends with progress, else None."""
    newest = events[-1] if events else None
    return to_message(newest) if isinstance(newest, Waiting | Loading | Checking) else None
