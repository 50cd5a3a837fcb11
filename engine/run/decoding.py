"""Entry point ``decode(request)``: decodes in a worker thread and yields events as they happen."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial

from engine.run.jobs import JobStream
from engine.run.recording import RunObserver
from engine.run.request import DecodeRequest
from engine.run.run import Run
from engine.run.run_counters import CountedRun
from engine.trace.events import Event, Failed, Finished
from engine.trace.records import Trace


def decode_to_trace(request: DecodeRequest) -> Trace:
    """Decode to the end and return the trace.

    Raises:
        EngineError: the request is invalid, or the run failed.
    """
    last = None
    for event in decode(request):
        last = event
    return trace_of(last)


def trace_of(last: Event | None) -> Trace:
    """Return the trace of a run's last event.

    Raises:
        EngineError: the run failed.
    """
    if isinstance(last, Failed):
        raise last.error
    assert isinstance(last, Finished)
    return last.trace


def decode(
    request: DecodeRequest, witness: Callable[[str], RunObserver] | None = None
) -> DecodeRun:
    """Start decoding; iterate the result for events, the last of which is Finished or Failed.

    Args:
        request: what to decode. An invalid request raises nothing here; it arrives as Failed.
        witness: maps the run's id to an observer of the run; None to keep nothing for later
            questions.

    Returns:
        An iterator of events. ``close()`` stops and discards the run. ``cancel()`` stops it and
            yields what exists as Finished with finish_reason cancelled; a run that still waits or
            loads ends as Failed with StoppedError.
    """
    return DecodeRun(request, witness)


class DecodeRun(JobStream):
    """Iterator over the events of one run; see ``decode``."""

    def __init__(
        self, request: DecodeRequest, witness: Callable[[str], RunObserver] | None = None
    ) -> None:
        run_id = uuid.uuid4().hex
        follows = None if witness is None else witness(run_id)
        run = partial(Run, request, witness=follows)
        super().__init__(partial(CountedRun, request.strategy, run), run_id)

    def __iter__(self) -> Iterator[Event]:
        return self
