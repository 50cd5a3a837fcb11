"""decode(request): a worker thread runs generate() with our loop; events come up as it decides."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial

from engine.run.counted import Counted
from engine.run.recording import Witness
from engine.run.request import DecodeRequest
from engine.run.run import Run
from engine.run.work import Work
from engine.trace.events import Event, Failed, Finished
from engine.trace.records import Trace


def finished(request: DecodeRequest) -> Trace:
    """Decode to the end and return the trace.

    Raises:
        EngineError: the request is not valid, or the run failed.
    """
    last = None
    for event in decode(request):
        last = event
    if isinstance(last, Failed):
        raise last.error
    assert isinstance(last, Finished)
    return last.trace


def decode(request: DecodeRequest, witness: Callable[[str], Witness] | None = None) -> DecodeRun:
    """Start decoding; iterate the result for events, the last is Finished or Failed.

    Args:
        request: what to decode. Nothing is raised for a bad request: it arrives as Failed.
        witness: run's id -> who follows the run from within, None where nobody will ask about it.

    Returns:
        An iterator of events with ``close()`` (stop and forget) and ``cancel()`` (stop and get
        what there is as Finished, with finish_reason cancelled; a run that waits or loads ends as
        Failed with StoppedError).
    """
    return DecodeRun(request, witness)


class DecodeRun(Work):
    """The events of one run; see ``decode``."""

    def __init__(
        self, request: DecodeRequest, witness: Callable[[str], Witness] | None = None
    ) -> None:
        run_id = uuid.uuid4().hex
        follows = None if witness is None else witness(run_id)
        run = partial(Run, request, witness=follows)
        super().__init__(partial(Counted, request.strategy, run), run_id)

    def __iter__(self) -> Iterator[Event]:
        return self
