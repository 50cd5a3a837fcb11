"""Progress messages for a waiting page, and background work that reports them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

from engine.run.jobs import FunctionJob, JobStream
from engine.run.progress import format_progress
from engine.run.scheduler import RUN_QUEUE, EventCallback
from engine.settings import SETTINGS
from engine.trace.events import Checking, Failed, Loading, Paused, Progress, Waiting

if TYPE_CHECKING:
    from playground.jobs.registry import PageJob

T = TypeVar("T")
HEARTBEAT_S = 1.0
"""Longest silence towards a page. Gradio notices a closed tab only when it sends something."""
_MAX_HEARTBEAT_S = 3.5
"""Below the five seconds of silence after which a page asks whether its run still exists."""
STARTING = {"phase": "starting", "says": "Starting…"}
DECODING = {"phase": "decoding", "says": "Decoding…"}
_PHASES = {Waiting: "waiting", Paused: "paused", Loading: "loading", Checking: "checking"}


def heartbeat_interval_s() -> float:
    """Return the longest seconds between two messages to a page; longer while many runs wait."""
    # A message a second for each of a hundred waiting pages slows the decoding run itself.
    return min(max(HEARTBEAT_S, RUN_QUEUE.event_interval_s), _MAX_HEARTBEAT_S)


def to_message(event: Progress) -> dict[str, str]:
    """Convert an event to a progress message with ``phase`` and the sentence ``format_progress``."""
    return {"phase": _PHASES[type(event)], "says": format_progress(event)}


def with_progress(
    job: PageJob, do: Callable[[EventCallback, threading.Event], T]
) -> Generator[Any, None, T]:
    """Run a function in a separate thread as the job's work until it returns.

    Args:
        job: The job; its ``stop`` cancels the function.
        do: Called with a function that takes its events, and an event that is set to cancel it.

    Yields:
        Progress messages, and the other events of ``do`` as they are.

    Returns:
        What ``do`` returned.

    Raises:
        EngineError: Raised by ``do``.
    """
    results: list[T] = []

    def execute(send: EventCallback, cancelled: threading.Event) -> None:
        results.append(do(send, cancelled))

    with closing(JobStream(lambda send, cancelled: FunctionJob(execute, send, cancelled))) as work:
        job.set_work(work)
        last = STARTING
        for events in work.batches(1 / SETTINGS.updates_per_s, heartbeat_interval_s()):
            for event in events:
                if isinstance(event, Failed):
                    raise event.error
                if not isinstance(event, Waiting | Loading | Checking):
                    yield event
            last = last_progress_message(events) or last
            yield {"kind": "progress", **last}
    return results[0]


def last_progress_message(events: list[Any]) -> dict[str, str] | None:
    """Return the progress message if a batch of events ends with progress, else None."""
    newest = events[-1] if events else None
    return to_message(newest) if isinstance(newest, Waiting | Loading | Checking) else None
