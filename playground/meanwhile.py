"""What the page is told while it waits: every message of it, and work that is done aloud."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, TypeVar

from engine.run.permits import LINE, Tell
from engine.run.progress import says
from engine.run.work import Task, Work
from engine.settings import SETTINGS
from engine.trace.events import Checking, Failed, Loading, Progress, Waiting

T = TypeVar("T")
BEAT_S = 1.0
"""A page is told something so often at least: a tab that was closed is found out by that alone."""
_LONGEST_BEAT_S = 3.5
"""A page that hears nothing for five seconds asks what has become of its run."""
STARTING = {"phase": "starting", "says": "Starting…"}
DECODING = {"phase": "decoding", "says": "Decoding…"}
_PHASES = {Waiting: "waiting", Loading: "loading", Checking: "checking"}


def beat_s() -> float:
    """Return the seconds after which a page is told something at least: more, where many wait."""
    return min(max(BEAT_S, LINE.pause_s), _LONGEST_BEAT_S)


def told(event: Progress) -> dict[str, str]:
    """Return what a page is told of an event: ``phase`` and what it ``says``."""
    return {"phase": _PHASES[type(event)], "says": says(event)}


def aloud(
    do: Callable[[Tell, threading.Event], T], begin: Callable[[Work], None] = lambda work: None
) -> Generator[dict[str, str], None, T]:
    """Do something in a thread of its own; yield what the page is told meanwhile.

    Args:
        do: called with what takes its events and what is set when it is to stop.
        begin: gets the work, which can be cancelled.

    Returns:
        What ``do`` returned.

    Raises:
        EngineError: what ``do`` raised.
    """
    results: list[T] = []

    def job(send: Tell, cancelled: threading.Event) -> None:
        results.append(do(send, cancelled))

    with closing(Work(lambda send, cancelled: Task(job, send, cancelled))) as work:
        begin(work)
        last = STARTING
        for events in work.batches(1 / SETTINGS.updates_per_s, beat_s()):
            for event in events:
                if isinstance(event, Failed):
                    raise event.error
                last = told(event)
            yield last
    return results[0]


def last_told(events: list[Any]) -> dict[str, str] | None:
    """Return what a page is told when a batch of events ends with progress, else None."""
    newest = events[-1] if events else None
    return told(newest) if isinstance(newest, Waiting | Loading | Checking) else None
